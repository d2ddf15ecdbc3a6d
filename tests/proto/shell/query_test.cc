#include "proto/shell/query.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>

#include "proto/control.pb.h"
#include "proto/frame_codec.h"

namespace ringway::shell {
namespace {

// Returns where it is bound to: a port that was free.
Endpoint BindToLoopback(int fd) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  EXPECT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&address), length), 0);
  EXPECT_EQ(::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length), 0);
  return {"127.0.0.1", ntohs(address.sin_port)};
}

// A socket that listens on loopback and accepts nothing.
class QueryTest : public testing::Test {
 protected:
  ~QueryTest() override { ::close(listening_); }

  Status Ask() const { return QueryMaster({{endpoint_}}, std::chrono::milliseconds(50)).status(); }

  const int listening_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const Endpoint endpoint_ = BindToLoopback(listening_);
};

TEST_F(QueryTest, RefusedConnectionIsAMasterThatDoesNotRun) {
  const Status status = Ask();
  EXPECT_EQ(status.code(), Code::kMasterUnreachable);
  EXPECT_NE(status.text().find("start ringway-master"), std::string::npos) << status.text();
}

// The kernel drops what comes when the backlog is full, as a firewall does.
TEST_F(QueryTest, DroppedPacketsAreTheAddressOrAFirewall) {
  ASSERT_EQ(::listen(listening_, 0), 0);
  Status status = Ask();
  for (int i = 0; i < 10 && status.code() == Code::kTimeout; ++i) status = Ask();
  EXPECT_EQ(status.code(), Code::kMasterUnreachable);
  EXPECT_NE(status.text().find("firewall"), std::string::npos) << status.text();
  EXPECT_EQ(status.text().find("start ringway-master"), std::string::npos) << status.text();
}

// A master that has too many connections does so: the first is closed at once, the second answered.
TEST_F(QueryTest, StatusIsAskedForAgainWhereTheConnectionIsClosedWithoutAnAnswer) {
  ASSERT_EQ(::listen(listening_, 2), 0);
  std::thread master([this] {
    ::close(::accept(listening_, nullptr, nullptr));
    const int second = ::accept(listening_, nullptr, nullptr);
    control::FromMaster reply;
    reply.mutable_status()->set_json("{}");
    std::string frame;
    AppendFrame(reply, frame);
    EXPECT_EQ(::send(second, frame.data(), frame.size(), MSG_NOSIGNAL), static_cast<ssize_t>(frame.size()));
    ::shutdown(second, SHUT_WR);
    char byte = 0;
    while (::recv(second, &byte, 1, 0) > 0) {
    }
    ::close(second);
  });
  const Result<std::string> status = QueryMaster({{endpoint_}}, std::chrono::seconds(20));
  ::shutdown(listening_, SHUT_RDWR);
  master.join();
  ASSERT_TRUE(status.ok()) << status.status().text();
  EXPECT_EQ(status.value(), "{}");
}

TEST_F(QueryTest, WhatClosesEveryConnectionIsNoMaster) {
  ASSERT_EQ(::listen(listening_, 8), 0);
  std::thread stranger([this] {
    for (int fd = 0; (fd = ::accept(listening_, nullptr, nullptr)) >= 0;) ::close(fd);
  });
  const Status status = QueryMaster({{endpoint_}}, std::chrono::milliseconds(250)).status();
  ::shutdown(listening_, SHUT_RDWR);
  stranger.join();
  EXPECT_TRUE(status.code() == Code::kProtocol || status.code() == Code::kIo) << status.text();
}

// Answers every request in the same way.
class PlayedMaster {
 public:
  explicit PlayedMaster(const control::FromMaster& reply) {
    EXPECT_EQ(::listen(listening_, 8), 0);
    std::string frame;
    AppendFrame(reply, frame);
    thread_ = std::thread([this, frame] {
      for (int fd = 0; (fd = ::accept(listening_, nullptr, nullptr)) >= 0;) {
        ++asked_;
        EXPECT_EQ(::send(fd, frame.data(), frame.size(), MSG_NOSIGNAL), static_cast<ssize_t>(frame.size()));
        char byte = 0;
        while (::recv(fd, &byte, 1, 0) > 0) {
        }
        ::close(fd);
      }
    });
  }
  ~PlayedMaster() {
    ::shutdown(listening_, SHUT_RDWR);
    thread_.join();
    ::close(listening_);
  }
  PlayedMaster(const PlayedMaster&) = delete;
  PlayedMaster& operator=(const PlayedMaster&) = delete;
  const Endpoint& endpoint() const { return endpoint_; }
  int asked() const { return asked_; }

 private:
  const int listening_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const Endpoint endpoint_ = BindToLoopback(listening_);
  std::atomic<int> asked_ = 0;
  std::thread thread_;
};

control::FromMaster RefusalNaming(const std::string& leader) {
  control::FromMaster message;
  message.mutable_refusal()->set_code(static_cast<std::uint32_t>(Code::kMasterUnreachable));
  message.mutable_refusal()->set_text("stands by");
  message.mutable_refusal()->set_leader(leader);
  return message;
}

TEST(SeveralMastersTest, OrderGoesToTheOneThatLeadsByTheShortestWay) {
  control::FromMaster taken;
  taken.mutable_order();
  const PlayedMaster leader(taken);
  const PlayedMaster second(RefusalNaming(""));
  const PlayedMaster first(RefusalNaming(ToString(leader.endpoint())));
  const Status given = GiveOrder({{first.endpoint(), second.endpoint(), leader.endpoint()}}, control::ToMaster(),
                                 std::chrono::seconds(20));
  EXPECT_TRUE(given.ok()) << given.text();
  EXPECT_EQ(second.asked(), 0);
}

TEST(SeveralMastersTest, MastersThatNameEachOtherAreAskedOnceEach) {
  const PlayedMaster a(RefusalNaming("127.0.0.1:1"));
  const PlayedMaster b(RefusalNaming(ToString(a.endpoint())));
  const Status given = GiveOrder({{a.endpoint(), b.endpoint()}}, control::ToMaster(), std::chrono::seconds(20));
  EXPECT_EQ(given.code(), Code::kMasterUnreachable);
  EXPECT_NE(given.text().find("stands by"), std::string::npos) << given.text();
  EXPECT_EQ(a.asked() + b.asked(), 2);
}

TEST_F(QueryTest, OrderThatWasSentAndNotAnsweredIsNotGivenToTheNextMaster) {
  control::FromMaster taken;
  taken.mutable_order();
  const PlayedMaster next(taken);
  ASSERT_EQ(::listen(listening_, 2), 0);
  std::thread dying([this] {
    const int fd = ::accept(listening_, nullptr, nullptr);
    char byte = 0;
    EXPECT_EQ(::recv(fd, &byte, 1, 0), 1);
    ::close(fd);
  });
  control::ToMaster order;
  order.mutable_evict()->set_group("g");
  const Status given = GiveOrder({{endpoint_, next.endpoint()}}, order, std::chrono::seconds(20));
  dying.join();
  EXPECT_FALSE(given.ok());
  EXPECT_NE(given.text().find("not known whether"), std::string::npos) << given.text();
  EXPECT_EQ(next.asked(), 0);
  ::shutdown(listening_, SHUT_RDWR);
}

TEST_F(QueryTest, OrderIsGivenToTheNextMasterWhereTheFirstDoesNotRun) {
  control::FromMaster taken;
  taken.mutable_order();
  const PlayedMaster next(taken);
  const Status given = GiveOrder({{endpoint_, next.endpoint()}}, control::ToMaster(), std::chrono::seconds(20));
  EXPECT_TRUE(given.ok()) << given.text();
}

TEST(SeveralMastersTest, StatusIsThatOfOneThatStandsByWhereNoneLeads) {
  control::FromMaster standby;
  standby.mutable_status()->set_json("standby");
  standby.mutable_status()->set_stands_by(true);
  const PlayedMaster a(standby);
  const PlayedMaster b(standby);
  const auto none = QueryMaster({{a.endpoint(), b.endpoint()}}, std::chrono::seconds(20));
  ASSERT_TRUE(none.ok()) << none.status().text();
  EXPECT_EQ(none.value(), "standby");
  control::FromMaster leads;
  leads.mutable_status()->set_json("leader");
  const PlayedMaster leader(leads);
  EXPECT_EQ(QueryMaster({{a.endpoint(), leader.endpoint()}}, std::chrono::seconds(20)).value(), "leader");
}

}  // namespace
}  // namespace ringway::shell
