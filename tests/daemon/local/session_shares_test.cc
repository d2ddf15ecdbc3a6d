// What a session does where its user has its share of descriptors or of joins, or may not join; and that nobody takes
// anything before that is checked.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "daemon/local/trainer_session.h"
#include "tests/daemon/local/client_packets.h"
#include "tests/daemon/local/memfd.h"
#include "tests/proto/stream/simulated_clock.h"

namespace ringway::local {
namespace {

class HostOfJoins : public SessionHost {
 public:
  Status MayJoin(const TrainerSession&, const std::optional<std::string>& group) override {
    return group ? may_join_group : may_join_any;
  }
  void OnJoin(const std::shared_ptr<TrainerSession>& session, const JoinOrder&) override { joins.push_back(session); }
  void OnSessionOver(const std::shared_ptr<TrainerSession>&) override {}
  std::string StatusJson() override { return std::string(3'000'000, 'j'); }
  std::uint64_t Instance() const override { return 1; }
  Status may_join_any, may_join_group;
  std::vector<std::shared_ptr<TrainerSession>> joins;
};

constexpr std::uint64_t kSmallBytes = 4096;

// This process's user is limited like any other.
class SessionSharesTest : public testing::Test {
 protected:
  void SetUp() override {
    page_fd_ = MakeMemfd(sizeof(abi::SessionPage));
    page_ = static_cast<abi::SessionPage*>(
        ::mmap(nullptr, sizeof(abi::SessionPage), PROT_READ | PROT_WRITE, MAP_SHARED, page_fd_.get(), 0));
    int fds[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
    session_ = std::make_shared<TrainerSession>(context_, &host_, SessionLimits{}, nullptr, nullptr, nullptr, users_);
    ASSERT_TRUE(session_->Start(net::UniqueFd(fds[0])).ok());
    client_.Reset(fds[1]);
  }
  void Greet() {
    Send(HelloPacket(), {page_fd_.get()});
    EXPECT_EQ(Receive<abi::HelloReply>(abi::PacketType::kHelloReply).code, Code::kOk);
  }
  void TearDown() override {
    host_.joins.clear();
    session_->End(Code::kLeft, "");
    Settle();
    ::munmap(page_, sizeof(abi::SessionPage));
  }
  void Settle() {
    for (int i = 0; i < 8; ++i) {
      context_.restart();
      context_.poll();
    }
  }
  // Time passes, as far as something waits for it.
  void Pass(Duration time) {
    const TimePoint until = clock_.Now() + time;
    do Settle();
    while (clock_.Step(until));
    Settle();
  }
  template <typename T>
  void Send(const T& packet, const std::vector<int>& fds = {}) {
    EXPECT_GT(SendRaw(client_.get(), BytesOf(packet), fds), 0);
    Settle();
  }
  template <typename T>
  T Receive(abi::PacketType type) {
    T packet{};
    EXPECT_EQ(::recv(client_.get(), &packet, sizeof packet, MSG_DONTWAIT), static_cast<ssize_t>(sizeof packet));
    EXPECT_EQ(packet.header.type, type);
    return packet;
  }
  HostUser Self() const { return users_->UserOf(::geteuid()); }
  void UseUpJoins() {
    for (std::int64_t i = 0; i < UserShares::kJoinsAtOnce; ++i) (void)users_->TakeJoin(Self(), clock_.Now());
  }

  asio::io_context context_;
  net::SimulatedClock& clock_ = net::SimulatedClock::Make(context_);
  HostOfJoins host_;
  std::shared_ptr<UserShares> users_ = std::make_shared<UserShares>(UserLimits{.descriptors = 8, .unlimited = {}});
  std::shared_ptr<TrainerSession> session_;
  net::UniqueFd client_;
  net::UniqueFd page_fd_;
  abi::SessionPage* page_ = nullptr;
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
  EXPECT_EQ(page_->slots[0].code, Code::kResourceExhausted);
  EXPECT_NE(std::string(page_->slots[0].text).find("its share of the 8 descriptors"), std::string::npos)
      << page_->slots[0].text;
  auto unregister = MakePacket<abi::UnregisterRegion>(abi::PacketType::kUnregisterRegion);
  Send(unregister);
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

// Nothing is mapped for it.
TEST_F(SessionSharesTest, UserWhoMayJoinNoGroupIsRefusedAtItsHello) {
  host_.may_join_any = Status(Code::kJoinRefused, "not this user");
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
