// What answers may be no etcd, or a broken one: each request ends, by its deadline, with a typed error.
#include "master/shell/etcd_lane.h"

#include <gtest/gtest.h>
#include <httplib.h>

#include <atomic>
#include <thread>

#include "tests/e2e/closed_port.h"

namespace ringway {
namespace {

constexpr char kRevoked[] = R"({"header":{"revision":"1"}})";

// Answers each POST as the test says.
class FakeEtcd {
 public:
  using Answer = std::function<void(const httplib::Request&, httplib::Response&)>;

  explicit FakeEtcd(Answer answer) {
    server_.Post(".*", std::move(answer));
    port_ = server_.bind_to_any_port("127.0.0.1");
    thread_ = std::thread([this] { server_.listen_after_bind(); });
  }
  ~FakeEtcd() {
    while (!server_.is_running()) std::this_thread::yield();
    server_.stop();
    thread_.join();
  }
  FakeEtcd(const FakeEtcd&) = delete;
  FakeEtcd& operator=(const FakeEtcd&) = delete;
  Endpoint endpoint() const { return {.host = "127.0.0.1", .port = static_cast<std::uint16_t>(port_)}; }

 private:
  httplib::Server server_;
  int port_ = 0;
  std::thread thread_;
};

class EtcdLaneTest : public testing::Test {
 protected:
  kv::Reply Ask(EtcdLane& lane, decltype(kv::Request::what) what = kv::Revoke{5}) {
    reply_.reset();
    lane.Ask({.number = 1, .what = std::move(what)});
    while (!reply_) {
      io_.restart();
      io_.run_for(std::chrono::milliseconds(5));
      lane.Tick();
    }
    return *reply_;
  }
  std::unique_ptr<EtcdLane> LaneTo(std::vector<Endpoint> endpoints, Duration within = std::chrono::seconds(30)) {
    EtcdOptions options;
    options.endpoints = std::move(endpoints);
    options.user = user_;
    options.password = "secret";
    return std::make_unique<EtcdLane>(io_, options, within, [this](const kv::Reply& reply) { reply_ = reply; });
  }

  asio::io_context io_{1};
  std::string user_;
  std::optional<kv::Reply> reply_;
};

TEST_F(EtcdLaneTest, NextEndpointIsAskedAfterOneThatIsGone) {
  FakeEtcd etcd([](const auto&, auto& response) { response.set_content(kRevoked, "application/json"); });
  const e2e::ClosedPort closed;
  const auto lane = LaneTo({ParseEndpoint(closed.address()).value(), etcd.endpoint()});
  EXPECT_EQ(Ask(*lane).status.code(), Code::kIo);
  EXPECT_TRUE(Ask(*lane).status.ok());
  EXPECT_TRUE(Ask(*lane).status.ok()) << "it stays with the one that answers";
}

TEST_F(EtcdLaneTest, GarbageIsAnErrorThatNamesTheAddress) {
  FakeEtcd etcd([](const auto&, auto& response) { response.set_content("<html>", "text/html"); });
  const auto lane = LaneTo({etcd.endpoint()});
  const kv::Reply reply = Ask(*lane);
  EXPECT_EQ(reply.status.code(), Code::kProtocol);
  EXPECT_NE(reply.status.text().find(ToString(etcd.endpoint())), std::string::npos) << reply.status.text();
}

TEST_F(EtcdLaneTest, HugeAnswerIsCutOff) {
  FakeEtcd etcd([](const auto&, auto& response) {
    response.set_chunked_content_provider("application/json", [](std::size_t, httplib::DataSink& sink) {
      static const std::string kPiece(1 << 20, ' ');
      return sink.write(kPiece.data(), kPiece.size());  // without end
    });
  });
  const auto lane = LaneTo({etcd.endpoint()});
  const kv::Reply reply = Ask(*lane);
  EXPECT_EQ(reply.status.code(), Code::kProtocol) << reply.status.text();
}

TEST_F(EtcdLaneTest, AnswerThatNeverComesEndsWithTheDeadline) {
  std::atomic<bool> over = false;
  FakeEtcd etcd([&](const auto&, auto&) {
    while (!over) std::this_thread::yield();
  });
  const auto lane = LaneTo({etcd.endpoint()}, std::chrono::milliseconds(100));
  EXPECT_EQ(Ask(*lane).status.code(), Code::kTimeout);
  over = true;
}

TEST_F(EtcdLaneTest, AnswerOfSingleBytesEndsWithTheDeadline) {
  FakeEtcd etcd([](const auto&, auto& response) {
    response.set_chunked_content_provider("application/json", [](std::size_t, httplib::DataSink& sink) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));  // far below any read's timeout
      return sink.write(" ", 1);
    });
  });
  const auto lane = LaneTo({etcd.endpoint()}, std::chrono::milliseconds(200));
  EXPECT_EQ(Ask(*lane).status.code(), Code::kTimeout);
}

TEST_F(EtcdLaneTest, MoreRequestsThanWaitFailAtOnce) {
  std::atomic<bool> over = false;
  FakeEtcd etcd([&](const auto&, auto&) {
    while (!over) std::this_thread::yield();
  });
  const auto lane = LaneTo({etcd.endpoint()});
  for (std::size_t i = 0; i < EtcdLane::kQueueMax + 1; ++i) lane->Ask({.number = 9, .what = kv::Revoke{5}});
  EXPECT_EQ(Ask(*lane).status.code(), Code::kResourceExhausted);
  over = true;
}

TEST_F(EtcdLaneTest, TokenThatHasEndedIsRenewedOnce) {
  user_ = "u";
  std::atomic<int> logins = 0;
  FakeEtcd etcd([&](const httplib::Request& request, httplib::Response& response) {
    if (request.path == "/v3/auth/authenticate") {
      return response.set_content(R"({"token":"t)" + std::to_string(++logins) + "\"}", "application/json");
    }
    if (request.get_header_value("Authorization") == "t2") return response.set_content(kRevoked, "application/json");
    response.status = 401;
    response.set_content(R"({"error":"etcdserver: invalid auth token","code":16})", "application/json");
  });
  const auto lane = LaneTo({etcd.endpoint()});
  EXPECT_TRUE(Ask(*lane).status.ok());
  EXPECT_TRUE(Ask(*lane).status.ok());
  EXPECT_EQ(logins, 2);
}

TEST_F(EtcdLaneTest, PasswordThatIsNotTakenIsSaid) {
  user_ = "u";
  FakeEtcd etcd([&](const httplib::Request&, httplib::Response& response) {
    response.status = 400;
    response.set_content(R"({"error":"etcdserver: authentication failed","code":3})", "application/json");
  });
  const auto lane = LaneTo({etcd.endpoint()});
  const kv::Reply reply = Ask(*lane);
  EXPECT_NE(reply.status.text().find("does not take user u: etcdserver: authentication failed"), std::string::npos)
      << reply.status.text();
}

}  // namespace
}  // namespace ringway
