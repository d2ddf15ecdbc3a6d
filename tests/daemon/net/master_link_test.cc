#include "daemon/net/master_link.h"

#include <vector>

#include "tests/e2e/closed_port.h"
#include "tests/proto/stream/net_fixture.h"
#include "tests/proto/stream/simulated_clock.h"

namespace ringway::net {
namespace {

class RecordingMasterSink : public MasterSink {
 public:
  void OnMasterUp(const control::HelloReply& reply) override { ups.push_back(reply); }
  void OnMasterDown(const std::string& why) override { downs.push_back(why); }
  void OnMasterRefused(const Status& why) override { refused.push_back(why); }
  Status OnMasterMessage(control::FromMaster message) override {
    messages.push_back(std::move(message));
    return Status::Ok();
  }
  std::vector<control::HelloReply> ups;
  std::vector<std::string> downs;
  std::vector<Status> refused;
  std::vector<control::FromMaster> messages;
};

class MasterLinkTest : public NetTest {
 protected:
  void SetUp() override {
    auto [fd, address] = ListenOnLoopback();
    listening_ = std::move(fd);
    MasterLinkOptions options;
    options.addresses = {address};
    options.attempt_timeout = std::chrono::milliseconds(200);
    options.pause_min = std::chrono::milliseconds(1);
    options.pause_max = std::chrono::milliseconds(5);
    options.hello.set_name("host-1");
    options.hello.set_instance(77);
    link_.emplace(context_, options, &sink_);
    link_->Start();
  }
  void TearDown() override {
    link_.reset();
    Settle();
  }
  static std::string HelloReplyOf(std::uint32_t heartbeat_ms, std::uint32_t detect_ms) {
    control::FromMaster message;
    message.mutable_hello_reply()->set_version(kProtocolVersionMax);
    message.mutable_hello_reply()->set_heartbeat_ms(heartbeat_ms);
    message.mutable_hello_reply()->set_detect_ms(detect_ms);
    return FrameOf(message);
  }
  UniqueFd Up(std::uint32_t heartbeat_ms, std::uint32_t detect_ms) {
    UniqueFd accepted = AcceptOn(listening_.get());
    const auto hello = NextFrame<control::ToMaster>(accepted.get());
    EXPECT_EQ(hello.hello().instance(), 77U);
    const std::size_t before = sink_.ups.size();
    WriteAll(accepted.get(), HelloReplyOf(heartbeat_ms, detect_ms));
    EXPECT_TRUE(RunUntil([&] { return sink_.ups.size() == before + 1; }));
    return accepted;
  }
  RecordingMasterSink sink_;
  UniqueFd listening_;
  std::optional<MasterLink> link_;
};

TEST_F(MasterLinkTest, HeartbeatsCarryTheCounters) {
  const UniqueFd master = Up(10, 10'000);
  control::DaemonHeartbeat counters;
  counters.add_counters()->add_counts(5);
  link_->SetCounters(counters);
  const auto beat = NextFrame<control::ToMaster>(master.get());
  ASSERT_EQ(beat.heartbeat().counters_size(), 1);
  EXPECT_EQ(beat.heartbeat().counters(0).counts(0), 5U);
}

TEST_F(MasterLinkTest, HeartbeatsCarryTheClocks) {
  const UniqueFd master = Up(10, 10'000);
  EXPECT_EQ(NextFrame<control::ToMaster>(master.get()).heartbeat().clock().echo_us(), 0) << "it has heard of none";
  control::FromMaster beat;
  beat.mutable_heartbeat()->mutable_clock()->set_sent_us(77);
  WriteAll(master.get(), FrameOf(beat));
  control::ClockSample clock;
  while (clock.echo_us() == 0) clock = NextFrame<control::ToMaster>(master.get()).heartbeat().clock();
  EXPECT_EQ(clock.echo_us(), 77);
  EXPECT_GE(clock.held_us(), 0);
  EXPECT_GT(clock.sent_us(), clock.held_us());
}

TEST_F(MasterLinkTest, MessagesPassAndHeartbeatsStay) {
  const UniqueFd master = Up(1000, 10'000);
  control::FromMaster beat;
  beat.mutable_heartbeat();
  control::FromMaster pending;
  pending.mutable_pending()->set_peer(9);
  WriteAll(master.get(), FrameOf(beat) + FrameOf(pending));
  ASSERT_TRUE(RunUntil([&] { return !sink_.messages.empty(); }));
  EXPECT_EQ(sink_.messages[0].pending().peer(), 9U);
}

TEST_F(MasterLinkTest, ComesBackAfterAReset) {
  UniqueFd master = Up(1000, 10'000);
  master.Reset();
  ASSERT_TRUE(RunUntil([&] { return sink_.downs.size() == 1; }));
  EXPECT_FALSE(link_->up());
  const UniqueFd again = Up(1000, 10'000);
  EXPECT_TRUE(link_->up());
}

TEST_F(MasterLinkTest, SilenceEndsTheLink) {
  const UniqueFd master = Up(10, 40);
  ASSERT_TRUE(RunUntil([&] { return sink_.downs.size() == 1; }));
  EXPECT_NE(sink_.downs[0].find("silent"), std::string::npos);
}

TEST_F(MasterLinkTest, RefusalIsReportedWithItsText) {
  const UniqueFd master = AcceptOn(listening_.get());
  control::FromMaster message;
  message.mutable_refusal()->set_code(static_cast<std::uint32_t>(Code::kVersionMismatch));
  message.mutable_refusal()->set_text("too old");
  WriteAll(master.get(), FrameOf(message));
  ASSERT_TRUE(RunUntil([&] { return !sink_.refused.empty(); }));
  EXPECT_EQ(sink_.refused[0].code(), Code::kVersionMismatch);
  EXPECT_NE(sink_.refused[0].text().find("too old"), std::string::npos);
}

TEST_F(MasterLinkTest, MasterThatSaysNothingIsGivenUpAndTriedAgain) {
  const UniqueFd silent = AcceptOn(listening_.get());
  ASSERT_TRUE(RunUntil([&] { return !sink_.refused.empty(); }));
  const UniqueFd again = Up(1000, 10'000);
}

TEST_F(MasterLinkTest, NothingIsSentWhileDown) {
  control::ToMaster message;
  message.mutable_withdraw()->set_peer(1);
  link_->Send(message);
  const UniqueFd master = AcceptOn(listening_.get());
  EXPECT_TRUE(NextFrame<control::ToMaster>(master.get()).has_hello());
  Settle();
  EXPECT_EQ(ReadAvailable(master.get()), "");
}

// Several masters: this test plays them all.
class SeveralMastersTest : public NetTest {
 protected:
  void Start(std::size_t masters) {
    MasterLinkOptions options;
    for (std::size_t i = 0; i < masters; ++i) {
      auto [fd, address] = ListenOnLoopback();
      listening_.push_back(std::move(fd));
      options.addresses.push_back(address);
    }
    addresses_ = options.addresses;
    options.pause_min = std::chrono::milliseconds(1);
    options.pause_max = std::chrono::milliseconds(5);
    link_.emplace(context_, options, &sink_);
    link_->Start();
  }
  void TearDown() override {
    link_.reset();
    Settle();
  }
  // The next attempt has to come to this one, which stands by and names that leader.
  void StandBy(std::size_t master, const std::string& leader) {
    const UniqueFd accepted = AcceptOn(listening_[master].get());
    EXPECT_TRUE(NextFrame<control::ToMaster>(accepted.get()).has_hello());
    control::FromMaster message;
    message.mutable_refusal()->set_code(static_cast<std::uint32_t>(Code::kMasterUnreachable));
    message.mutable_refusal()->set_text("stands by");
    message.mutable_refusal()->set_leader(leader);
    WriteAll(accepted.get(), FrameOf(message));
    Settle();
  }
  UniqueFd Lead(std::size_t master, std::uint32_t term) {
    UniqueFd accepted = AcceptOn(listening_[master].get());
    EXPECT_TRUE(NextFrame<control::ToMaster>(accepted.get()).has_hello());
    control::FromMaster message;
    message.mutable_hello_reply()->set_version(kProtocolVersionMax);
    message.mutable_hello_reply()->set_term(term);
    message.mutable_hello_reply()->set_heartbeat_ms(1000);
    message.mutable_hello_reply()->set_detect_ms(10'000);
    const std::size_t before = sink_.ups.size();
    WriteAll(accepted.get(), FrameOf(message));
    EXPECT_TRUE(RunUntil([&] { return sink_.ups.size() == before + 1; }));
    return accepted;
  }

  RecordingMasterSink sink_;
  std::vector<UniqueFd> listening_;
  std::vector<std::string> addresses_;
  std::optional<MasterLink> link_;
};

TEST_F(SeveralMastersTest, LeaderThatAStandbyNamesIsTriedNext) {
  Start(3);
  StandBy(0, addresses_[2]);
  const UniqueFd leader = Lead(2, 1);
  EXPECT_EQ(link_->address(), addresses_[2]);
  EXPECT_TRUE(sink_.refused.empty()) << "it is found within the first round";
}

TEST_F(SeveralMastersTest, NextLeaderIsFoundAlthoughTheStandbyStillNamesTheLast) {
  Start(3);
  UniqueFd leader = Lead(0, 1);
  leader.Reset();
  StandBy(1, addresses_[0]);
  const UniqueFd next = Lead(2, 2);
  EXPECT_EQ(sink_.downs.size(), 1U);
}

TEST_F(SeveralMastersTest, MastersThatNameEachOtherKeepNobodyFromTheThird) {
  Start(3);
  for (int round = 0; round < 3; ++round) {
    StandBy(0, addresses_[1]);
    StandBy(1, addresses_[0]);
    if (round < 2) StandBy(2, "");
  }
  const UniqueFd leader = Lead(2, 1);
  EXPECT_EQ(sink_.refused.size(), 2U) << "one failure a round";
}

TEST_F(SeveralMastersTest, AddressOutsideTheListIsNotFollowed) {
  auto [fd, stranger] = ListenOnLoopback();
  Start(2);
  StandBy(0, stranger);
  const UniqueFd leader = Lead(1, 1);
  EXPECT_TRUE(link_->up());
}

TEST_F(SeveralMastersTest, PredecessorThatWakesUpIsNotFollowed) {
  Start(2);
  UniqueFd leader = Lead(0, 1);
  leader.Reset();
  UniqueFd next = Lead(1, 2);
  next.Reset();
  {
    const UniqueFd old = AcceptOn(listening_[0].get());
    control::FromMaster message;
    message.mutable_hello_reply()->set_version(kProtocolVersionMax);
    message.mutable_hello_reply()->set_term(1);
    WriteAll(old.get(), FrameOf(message));
    Settle();
  }
  const UniqueFd again = Lead(1, 3);
  EXPECT_EQ(sink_.ups.size(), 3U);
}

// Returns the pauses between the attempts of a daemon of that name, without a master.
std::vector<Duration> PausesOf(const std::string& name) {
  asio::io_context loop{1};
  SimulatedClock& clock = SimulatedClock::Make(loop);
  const e2e::ClosedPort nobody;
  MasterLinkOptions options;
  options.addresses = {nobody.address()};
  options.hello.set_name(name);
  RecordingMasterSink sink;
  MasterLink link(loop, options, &sink);
  link.Start();
  std::vector<Duration> pauses;
  TimePoint last = clock.Now();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (pauses.size() < 8 && std::chrono::steady_clock::now() < deadline) {
    loop.restart();
    loop.run_one_for(std::chrono::milliseconds(1));  // the kernel's answer takes no simulated time
    if (sink.refused.size() == pauses.size()) continue;
    (void)clock.Step(clock.Now() + std::chrono::seconds(2));
    pauses.push_back(clock.Now() - last);
    last = clock.Now();
  }
  return pauses;
}

TEST(MasterLinkPauses, GrowAndDifferFromOneDaemonToTheNext) {
  const std::vector<Duration> a = PausesOf("a");
  const std::vector<Duration> b = PausesOf("b");
  ASSERT_EQ(a.size(), 8u);
  ASSERT_EQ(b.size(), 8u);
  EXPECT_EQ(a, PausesOf("a"));
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_NE(a[i], b[i]) << i;
    const Duration longest = std::min<Duration>(std::chrono::milliseconds(50) * (1 << i), std::chrono::seconds(1));
    EXPECT_GE(a[i], longest / 2) << i;
    EXPECT_LT(a[i], longest) << i;
  }
}

}  // namespace
}  // namespace ringway::net
