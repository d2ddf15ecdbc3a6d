// A master that leads, stands by or is deposed, with a store that the test plays.
#include <gtest/gtest.h>

#include <asio/ip/tcp.hpp>

#include "tests/master/shell/server_fixture.h"

namespace ringway {
namespace {

std::string FrameOf(const control::ToMaster& message) {
  std::string out;
  AppendFrame(message, out);
  return out;
}

// Its trainer is a world of one.
std::string FrameOfJoin() {
  control::ToMaster join;
  join.mutable_join()->set_request_id(1);
  join.mutable_join()->set_group("g");
  join.mutable_join()->set_name("t");
  join.mutable_join()->set_wait_world(1);
  join.mutable_join()->set_min_world(1);
  return FrameOf(join);
}

TEST_F(ServerTest, MasterThatStandsByRefusesDaemonsAndOrdersAndNamesTheLeader) {
  auto store = std::make_unique<PlayedStore>();
  PlayedStore& played = *store;
  Start(std::chrono::seconds(30), 3000, std::move(store));
  played.sink().OnStandby("10.0.0.9:7400", Status::Ok());
  Write(FrameOfHello());
  const auto refused = Receive();
  ASSERT_TRUE(refused && refused->has_refusal());
  EXPECT_EQ(refused->refusal().leader(), "10.0.0.9:7400");
  EXPECT_EQ(static_cast<Code>(refused->refusal().code()), Code::kMasterUnreachable);
  EXPECT_FALSE(Receive()) << "the connection is closed";
  tcp::socket other(io_);
  other.connect(address_);
  std::swap(other, client_);
  control::ToMaster order;
  order.mutable_evict()->set_group("g");
  std::string out;
  AppendFrame(order, out);
  Write(out);
  const auto answer = Receive();
  ASSERT_TRUE(answer && answer->has_refusal());
  EXPECT_EQ(answer->refusal().leader(), "10.0.0.9:7400");
}

TEST_F(ServerTest, MasterThatStandsBySaysSoInItsStatus) {
  auto store = std::make_unique<PlayedStore>();
  PlayedStore& played = *store;
  Start(std::chrono::seconds(30), 3000, std::move(store));
  played.sink().OnStandby("10.0.0.9:7400", Status::Ok());
  const auto reply = AskStatus();
  ASSERT_TRUE(reply && reply->has_status());
  EXPECT_TRUE(reply->status().stands_by());
  EXPECT_EQ(reply->status().leader(), "10.0.0.9:7400");
  EXPECT_NE(reply->status().json().find("\"role\":\"standby\""), std::string::npos) << reply->status().json();
}

TEST_F(ServerTest, DeposedMasterClosesItsDaemonsAndMayLeadAgain) {
  auto store = std::make_unique<PlayedStore>();
  PlayedStore& played = *store;
  Start(std::chrono::seconds(30), 3000, std::move(store));
  for (const std::uint32_t term : {4U, 6U}) {
    played.sink().OnLead({.term = term});
    tcp::socket daemon(io_);
    daemon.connect(address_);
    std::swap(daemon, client_);
    Write(FrameOfHello());
    const auto reply = Receive();
    ASSERT_TRUE(reply && reply->has_hello_reply());
    EXPECT_EQ(reply->hello_reply().term(), term);
    played.sink().OnStandby("", Status(Code::kIo, "another master leads"));
    EXPECT_FALSE(Receive()) << "it is to find the one that leads";
    EXPECT_FALSE(server_->leads());
    EXPECT_TRUE(server_->coordinator().daemons().empty());
  }
}

TEST_F(ServerTest, ViewIsSentOnceTheStoreHasIt) {
  auto store = std::make_unique<PlayedStore>();
  PlayedStore& played = *store;
  Start(std::chrono::seconds(30), 3000, std::move(store));
  played.sink().OnLead({.term = 1});
  Write(FrameOfHello() + FrameOfJoin());
  ASSERT_TRUE(RunUntil([&] { return !played.written().empty(); }));
  EXPECT_EQ(played.written()[0].name(), "g");
  EXPECT_TRUE(server_->coordinator().NeedsRecord()) << "the store has not answered";
  played.sink().OnWritten(Status::Ok());
  EXPECT_FALSE(server_->coordinator().NeedsRecord());
  FrameReader reader;
  std::array<std::byte, 4096> buffer;
  const auto gets_view = [&] {
    std::error_code error;
    const std::size_t bytes = client_.read_some(asio::buffer(buffer), error);
    EXPECT_TRUE(error || reader.Feed(std::span(buffer).first(bytes)).ok());
    while (const auto frame = reader.Next()) {
      control::FromMaster message;
      if (ParseFrame(*frame, message).ok() && message.has_view()) return message.view().view().members_size() == 1;
    }
    return false;
  };
  client_.non_blocking(true);
  EXPECT_TRUE(RunUntil(gets_view));
}

// A daemon "d" with trainer "t" in group "g", which is recorded, and a client that has asked for its eviction, which is
// not.
class EvictionTest : public ServerTest {
 protected:
  EvictionTest() {
    auto store = std::make_unique<PlayedStore>();
    played_ = store.get();
    Start(std::chrono::seconds(30), 3000, std::move(store));
    played_->sink().OnLead({.term = 1});
    Write(FrameOfHello() + FrameOfJoin());
    EXPECT_TRUE(RunUntil([&] { return IsWritten(1); }));
    played_->sink().OnWritten(Status::Ok());
    daemon_.connect(address_);
    std::swap(daemon_, client_);
    control::ToMaster order;
    order.mutable_evict()->set_group("g");
    order.mutable_evict()->set_peer("t");
    Write(FrameOf(order));
    EXPECT_TRUE(RunUntil([&] { return IsWritten(0); }));
  }
  bool IsWritten(int members) const {
    return !played_->written().empty() && played_->written()[0].members_size() == members;
  }

  PlayedStore* played_ = nullptr;
  tcp::socket daemon_{io_};
};

TEST_F(EvictionTest, IsAnsweredOnceTheStoreHasIt) {
  played_->sink().OnWritten(Status::Ok());
  const auto reply = Receive();
  ASSERT_TRUE(reply && reply->has_order());
  EXPECT_EQ(static_cast<Code>(reply->order().code()), Code::kOk) << reply->order().text();
}

TEST_F(EvictionTest, IsNotKnownToBeCarriedOutWhereTheMasterIsDeposedBefore) {
  played_->sink().OnStandby("10.0.0.9:7400", Status(Code::kIo, "another master leads"));
  const auto reply = Receive();
  ASSERT_TRUE(reply && reply->has_order()) << "a refusal would have it given to the next master";
  EXPECT_EQ(static_cast<Code>(reply->order().code()), Code::kMasterUnreachable);
  EXPECT_NE(reply->order().text().find("not known"), std::string::npos) << reply->order().text();
}

TEST_F(EvictionTest, OneThatTheStoreDoesNotTakeIsSaidToBeUnderWay) {
  played_->sink().OnWritten(Status(Code::kIo, "no quorum"));
  const auto reply = Receive();
  ASSERT_TRUE(reply && reply->has_order());
  EXPECT_EQ(static_cast<Code>(reply->order().code()), Code::kTimeout);
  EXPECT_NE(reply->order().text().find("not recorded yet"), std::string::npos) << reply->order().text();
}

TEST_F(ServerTest, DeposedMasterRefusesThePlansThatWaitAndLogsItsDaemonsByName) {
  auto store = std::make_unique<PlayedStore>();
  PlayedStore& played = *store;
  Start(std::chrono::seconds(30), 3000, std::move(store));
  played.sink().OnLead({.term = 1});
  Write(FrameOfHello());
  ASSERT_TRUE(Receive());
  tcp::socket daemon(io_);
  daemon.connect(address_);
  std::swap(daemon, client_);
  control::ToMaster plan;
  plan.mutable_plan()->set_group("g");
  Write(FrameOf(plan));
  ASSERT_TRUE(RunUntil([&] { return !server_->desk().idle(); }));
  testing::internal::CaptureStdout();
  played.sink().OnStandby("10.0.0.9:7400", Status(Code::kIo, "another master leads"));
  const std::string log = testing::internal::GetCapturedStdout();
  EXPECT_NE(log.find("daemon=d "), std::string::npos) << log;
  const auto answer = Receive();
  ASSERT_TRUE(answer && answer->has_refusal());
  EXPECT_EQ(answer->refusal().leader(), "10.0.0.9:7400");
}

}  // namespace
}  // namespace ringway
