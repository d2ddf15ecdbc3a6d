// A session whose user has its share of descriptors or of joins, or may not join, is refused or waits; nobody takes
// anything before that is checked.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "tests/daemon/local/session_fixture.h"
#include "tests/proto/stream/simulated_clock.h"

namespace ringway::local {
namespace {

constexpr std::uint64_t kSmallBytes = 4096;

// This process's user is limited like any other.
class SessionSharesTest : public SessionFixture {
 protected:
  void SetUp() override { Open({}, nullptr, users_); }
  // Time passes, as far as something waits for it.
  void Pass(Duration time) {
    const TimePoint until = clock_.Now() + time;
    do Settle();
    while (clock_.Step(until));
    Settle();
  }
  HostUser Self() const { return users_->UserOf(::geteuid()); }
  void UseUpJoins() {
    for (std::int64_t i = 0; i < UserShares::kJoinsAtOnce; ++i) (void)users_->TakeJoin(Self(), clock_.Now());
  }

  net::SimulatedClock& clock_ = net::SimulatedClock::Make(context_);
  std::shared_ptr<UserShares> users_ = std::make_shared<UserShares>(UserLimits{.descriptors = 8, .unlimited = {}});
};

TEST_F(SessionSharesTest, OneMemfdRegisteredOverAndOverIsCountedEachTime) {
  Greet();
  Send(JoinPacket());
  session_->Joined({.peer = PeerId(5), .epoch = Epoch(1), .rank = 0, .world_size = 1});
  const net::UniqueFd memory = MakeMemfd(kSmallBytes);
  for (std::uint32_t id = 0; id < 100; ++id) Send(RegisterPacket(id, kSmallBytes), {memory.get()});
  EXPECT_EQ(users_->descriptors().used(), 6U) << "three quarters; two are the session's";
  auto submit = SubmitPacket(0);
  submit.input_region = 99;
  Send(submit);
  EXPECT_EQ(page_->slots[0].outcome.code, Code::kResourceExhausted);
  EXPECT_NE(std::string(page_->slots[0].text).find("its share of the 8 descriptors"), std::string::npos)
      << page_->slots[0].text;
  Unregister(0);
  EXPECT_EQ(users_->descriptors().used(), 5U);
  EXPECT_TRUE(session_->open());
}

TEST_F(SessionSharesTest, JoinBeyondTheUsersShareWaitsForItsTurn) {
  UseUpJoins();
  Greet();
  Send(JoinPacket());
  const auto progress = Receive<abi::JoinProgress>(abi::PacketType::kJoinProgress);
  EXPECT_EQ(progress.code, Code::kResourceExhausted);
  for (const char* part : {"more often than 4 times a second", "this join waits 0.2 s"}) {
    EXPECT_NE(std::string(progress.text).find(part), std::string::npos) << progress.text;
  }
  Pass(UserShares::kJoinPeriod - Duration(1));
  EXPECT_TRUE(host_.joins.empty());
  Pass(Duration(1));
  EXPECT_EQ(host_.joins.size(), 1U);
}

TEST_F(SessionSharesTest, TrainerThatGoesBeforeItsTurnGivesItBack) {
  UseUpJoins();
  Greet();
  Send(JoinPacket());
  client_.Reset();
  Pass(2 * UserShares::kJoinPeriod);
  EXPECT_TRUE(host_.joins.empty());
  const TimePoint before = clock_.Now() - 2 * UserShares::kJoinPeriod;
  EXPECT_EQ(users_->TakeJoin(Self(), before), UserShares::kJoinPeriod) << "the turn that it had";
}

// Else each of a user's sessions could have megabytes of the daemon's memory, a little more with each word.
TEST_F(SessionSharesTest, TrainerThatReadsNothingGetsNoMoreThanItsSocketHolds) {
  Greet();
  Send(JoinPacket());
  constexpr int kMoreThanFit = 5000;
  for (int i = 0; i < kMoreThanFit; ++i) session_->JoinProgress(Code::kMasterUnreachable, "no master");
  session_->Attach(&port_);
  session_->Joined({.peer = PeerId(5), .epoch = Epoch(1), .rank = 0, .world_size = 1});
  for (int i = 0; i < kMoreThanFit; ++i) {
    session_->Complete(buffers::Complete());
    session_->Flush();
  }
  int progress = 0;
  int doorbells = 0;
  bool joined = false;
  for (;;) {
    alignas(abi::JoinReply) char packet[1024];
    abi::PacketHeader header{};
    if (::recv(client_.get(), packet, sizeof packet, MSG_DONTWAIT) < 0) break;
    std::memcpy(&header, packet, sizeof header);
    progress += header.type == abi::PacketType::kJoinProgress ? 1 : 0;
    doorbells += header.type == abi::PacketType::kDoorbell ? 1 : 0;
    joined = joined || header.type == abi::PacketType::kJoinReply;
    Settle();
  }
  EXPECT_LT(progress, kMoreThanFit / 2);
  EXPECT_EQ(doorbells, 0) << "what is unread wakes it up";
  EXPECT_TRUE(joined);
}

// The daemon maps nothing for it.
TEST_F(SessionSharesTest, UserWhoMayJoinNoGroupIsRefusedAtItsHello) {
  host_.may_join_any = Status(Code::kJoinRefused, "not this user");
  MakePage();
  Send(HelloPacket(), {page_fd_.get()});
  const auto reply = Receive<abi::HelloReply>(abi::PacketType::kHelloReply);
  EXPECT_EQ(reply.code, Code::kJoinRefused);
  EXPECT_STREQ(reply.text, "not this user");
  EXPECT_EQ(Receive<abi::Ended>(abi::PacketType::kEnded).code, Code::kJoinRefused);
  EXPECT_FALSE(session_->open());
}

TEST_F(SessionSharesTest, UserWhoMayNotJoinTheGroupTakesNoTurn) {
  host_.may_join_group = Status(Code::kJoinRefused, "not this group");
  Greet();
  Send(JoinPacket());
  EXPECT_EQ(Receive<abi::JoinReply>(abi::PacketType::kJoinReply).code, Code::kJoinRefused);
  EXPECT_TRUE(host_.joins.empty());
  for (std::int64_t i = 0; i < UserShares::kJoinsAtOnce; ++i)
    EXPECT_EQ(users_->TakeJoin(Self(), clock_.Now()), Duration());
}

TEST_F(SessionSharesTest, RegionBeforeTheJoinIsTakenEndsTheSession) {
  Greet();
  Send(JoinPacket());
  Send(RegisterPacket(0, kSmallBytes), {MakeMemfd(kSmallBytes).get()});
  const auto ended = Receive<abi::Ended>(abi::PacketType::kEnded);
  EXPECT_EQ(ended.code, Code::kProtocol);
  EXPECT_NE(std::string(ended.text).find("no member"), std::string::npos) << ended.text;
}

// Else each client could have megabytes of the daemon's memory.
TEST_F(SessionSharesTest, StatusClientThatDoesNotReadIsEndedAtItsNextQuestion) {
  host_.status = std::string(3'000'000, 'j');
  Send(HelloPacket());
  Send(MakePacket<abi::Status>(abi::PacketType::kStatus));
  EXPECT_TRUE(session_->open());
  Send(MakePacket<abi::Status>(abi::PacketType::kStatus));
  EXPECT_FALSE(session_->open());
}

TEST_F(SessionSharesTest, QuestionWithMoreInItEndsTheSession) {
  Send(HelloPacket());
  (void)Receive<abi::HelloReply>(abi::PacketType::kHelloReply);
  Send(std::array{MakePacket<abi::Status>(abi::PacketType::kStatus), abi::Status{}});
  EXPECT_EQ(Receive<abi::Ended>(abi::PacketType::kEnded).code, Code::kProtocol);
}

}  // namespace
}  // namespace ringway::local
