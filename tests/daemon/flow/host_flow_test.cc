// Flow control, as it ships, against a model of a network: an uplink with a drop-tail queue, paths with one each behind
// it. Pairs send segments whenever their PairFlow lets them, each millisecond; the network takes in what came in a
// tick.
#include "daemon/flow/host_flow.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "daemon/flow/pair_flow.h"

namespace ringway::flow {
namespace {

using std::chrono::milliseconds;

constexpr Duration kTick = milliseconds(50);
constexpr double kTickSeconds = 0.05;
constexpr Duration kStep = milliseconds(1);
constexpr double kStepSeconds = 0.001;
constexpr double kSegment = 64 << 10;
constexpr double kMega = 1e6;

// A pipe with a drop-tail queue: bytes that would wait for longer than `queue_seconds` are lost.
struct Pipe {
  double rate = 0;
  double queue_seconds = 0.05;
  double waiting = 0;  // bytes

  struct Passed {
    double through = 0;
    double lost = 0;
  };
  Passed Offer(double bytes) {
    waiting += bytes;
    const double through = std::min(waiting, rate * kTickSeconds);
    waiting -= through;
    const double lost = std::max(0.0, waiting - rate * queue_seconds);
    waiting -= lost;
    return {.through = through, .lost = lost};
  }
  Duration delay() const { return Duration(static_cast<std::int64_t>(waiting / rate * 1e6)); }
};

// Senders that always have more, and drive the network over its limit unless they are held back.
class HostFlowTest : public testing::Test {
 protected:
  struct Sender {
    PathKey key;
    Pipe pipe;
    LaneTraffic traffic{.round_trip = milliseconds(100), .sending = true};  // of its one lane
    std::unique_ptr<PairFlow> flow;
    PathSample load;  // as it was judged last
    double random_loss = 0;
    bool sends = true;
    double wants = 0;    // bytes that it could send by now
    double left = 1e18;  // bytes that it has
    double offered = 0;  // in this tick
  };

  // A lone lane takes every size; it has room whenever it is asked.
  struct LoneLane {
    static std::size_t size() { return 1; }
    static LaneState state(std::size_t) { return {.up = true, .every_size = true, .idle = true}; }
  };

  explicit HostFlowTest(std::uint32_t share = kShareDefault) : pacer_(share) {
    for (std::uint64_t i = 0; i < 3; ++i) {
      Sender& sender = senders_.emplace_back();
      sender.key = {.self = PeerId(1), .other = PeerId(2 + i)};
      sender.pipe.rate = 10'000 * kMega;
      sender.flow = std::make_unique<PairFlow>(&pacer_, sender.key);
    }
    uplink_.rate = 100 * kMega;
  }

  static constexpr std::size_t kNobody = ~std::size_t{0};
  void SendOnly(std::size_t only) {
    for (std::size_t i = 0; i < senders_.size(); ++i) senders_[i].sends = i == only;
  }

  void SendAll() {
    for (Sender& sender : senders_) sender.sends = true;
  }

  struct Total {
    double delivered = 0;
    double lost = 0;
    std::vector<double> by_path = std::vector<double>(3);
  };
  // Bytes in `seconds`.
  Total Run(int time_s) {
    Total total;
    for (int tick = 0; tick < time_s * 20; ++tick) Tick(total);
    return total;
  }

  void RunEachAlone(int time_s) {
    for (std::size_t i = 0; i < senders_.size(); ++i) {
      SendOnly(i);
      Run(time_s);
    }
  }

  void Tick(Total& total) {
    double offered = others_rate_ * kTickSeconds;
    for (const TimePoint end = now_ + kTick; now_ < end; now_ += kStep) SendForAStep();
    for (const Sender& sender : senders_) offered += sender.offered;
    const Pipe::Passed passed = uplink_.Offer(offered);
    others_rate_ = passed.lost > 0 ? (1 - others_fall_) * others_rate_ : others_rate_ + others_grow_;
    for (std::size_t i = 0; i < senders_.size(); ++i) {
      Sender& sender = senders_[i];
      const double share = offered > 0 ? std::exchange(sender.offered, 0) / offered : 0;
      const Pipe::Passed arrived = sender.pipe.Offer(passed.through * share);
      const double delivered = arrived.through * (1 - sender.random_loss);
      const double lost = passed.lost * share + arrived.lost + arrived.through * sender.random_loss;
      sender.traffic.delivered_bytes += static_cast<std::uint64_t>(delivered);
      sender.traffic.resent_bytes += static_cast<std::uint64_t>(lost);
      sender.traffic.queueing = uplink_.delay() + sender.pipe.delay() + queue_back_;
      if (resends_) sender.offered = lost;
      Sample(sender);
      total.delivered += delivered;
      total.by_path[i] += delivered;
      total.lost += lost;
    }
    pacer_.Decide(now_);
    for (Sender& sender : senders_) sender.flow->pacer().Adopt();
  }

  void Sample(Sender& sender) {
    const bool waits = sender.sends && sender.left > 0;
    const LaneState lane{.up = true, .every_size = true, .idle = !waits};
    if (!sender.flow->Look({&lane, 1}, now_) || !sender.sends) return;
    const PairFlow::Verdict verdict = sender.flow->Judge({&lane, 1}, {&sender.traffic, 1}, waits, now_);
    if (!verdict.sample) return;
    sender.load = *verdict.sample;
    pacer_.Add(sender.key.self, sender.load);
  }

  // The first of one step is the last of the next.
  void SendForAStep() {
    ++turn_;
    for (std::size_t i = 0; i < senders_.size(); ++i) {
      Sender& sender = senders_[(turn_ + i) % senders_.size()];
      sender.wants =
          sender.sends ? std::min(sender.wants + eager_ * kStepSeconds, kSegment + eager_ * kStepSeconds) : 0;
      if (sender.wants >= kSegment && sender.left > 0) Send(sender);
    }
  }

  void Send(Sender& sender) {
    std::size_t budget = ~std::size_t{0};
    (void)sender.flow->Pump(LoneLane(), budget, now_, [&](std::size_t) -> std::size_t {
      if (sender.wants < kSegment || sender.left <= 0) return 0;
      sender.wants -= kSegment;
      sender.left -= kSegment;
      sender.offered += kSegment;
      return static_cast<std::size_t>(kSegment);
    });
  }

  HostFlow pacer_;
  std::vector<Sender> senders_;
  Pipe uplink_;
  double eager_ = 300 * kMega;
  std::size_t turn_ = 0;
  Duration queue_back_{};   // of acknowledgements
  bool resends_ = false;    // what was lost, in the next tick, as TCP does: nothing holds that back
  double others_rate_ = 0;  // of traffic that is not ours, through the uplink
  double others_grow_ = 0;  // added to it in each tick, until something is lost
  double others_fall_ = 0;  // added to it then
  TimePoint now_{std::chrono::seconds(10)};
};

TEST_F(HostFlowTest, WithoutIt_TwoOfThreeBytesAreLost) {
  const Pipe::Passed passed = Pipe{.rate = 100 * kMega}.Offer(15 * kMega);
  EXPECT_GT(passed.lost, passed.through / 2 - 1) << "the model overflows";
}

TEST_F(HostFlowTest, OnePathIsDrivenToItsLimitAndNotBeyond) {
  SendOnly(0);
  Run(3);
  const Total total = Run(30);
  EXPECT_GT(total.delivered, 0.95 * 30 * uplink_.rate);
  EXPECT_LT(total.lost, 0.005 * total.delivered);
}

TEST_F(HostFlowTest, PathsShareAnUplinkFairlyAndWithoutOverflow) {
  Run(3);
  const Total total = Run(30);
  EXPECT_GT(total.delivered, 0.95 * 30 * uplink_.rate);
  EXPECT_LT(total.lost, 0.005 * total.delivered);
  for (const double of_path : total.by_path) EXPECT_NEAR(of_path, total.delivered / 3, 0.1 * total.delivered / 3);
}

TEST_F(HostFlowTest, ASlowPathLeavesItsPartOfTheUplinkToTheOthers) {
  senders_[1].pipe.rate = 10 * kMega;
  Run(5);
  const Total total = Run(30);
  EXPECT_GT(total.by_path[1], 0.9 * 30 * senders_[1].pipe.rate);
  EXPECT_GT(total.delivered, 0.93 * 30 * uplink_.rate);
  EXPECT_LT(total.lost, 0.01 * total.delivered);
}

TEST_F(HostFlowTest, AnUplinkThatShrinksOrGrowsIsFollowed) {
  Run(5);
  uplink_.rate = 30 * kMega;
  Run(3);
  Total total = Run(10);
  EXPECT_GT(total.delivered, 0.93 * 10 * uplink_.rate);
  EXPECT_LT(total.lost, 0.01 * total.delivered);
  uplink_.rate = 200 * kMega;
  eager_ = 400 * kMega;
  Run(10);
  total = Run(10);
  EXPECT_GT(total.delivered, 0.93 * 10 * uplink_.rate);
}

TEST_F(HostFlowTest, AlternatingBetweenOnePathAndAllKeepsBothFull) {
  Total all;
  for (int i = 0; i < 20; ++i) {
    SendOnly(0);
    Run(1);
    SendAll();
    const Total now = Run(1);
    if (i < 5) continue;
    all.delivered += now.delivered;
    all.lost += now.lost;
  }
  EXPECT_GT(all.delivered, 0.9 * 15 * uplink_.rate);
  EXPECT_LT(all.lost, 0.08 * all.delivered) << "each change is seen a tick late, and overdriven until then";
}

TEST_F(HostFlowTest, LossesWithoutAQueueAreNoReasonToSlowDown) {
  uplink_.rate = 10'000 * kMega;
  for (Sender& sender : senders_) {
    sender.random_loss = 0.03;
    sender.pipe.rate = 50'000 * kMega;
  }
  Run(20);
  for (const Sender& sender : senders_) EXPECT_EQ(pacer_.rate(sender.key), 0);
}

TEST_F(HostFlowTest, BesideOthersThatKeepTheQueueFullItIsNotStarved) {
  SendOnly(0);
  others_rate_ = 60 * kMega;
  Run(60);
  // The others neither yield nor stop: 40 of 100 are left, and a queue stands while more than that is sent.
  EXPECT_GT(Run(30).delivered, 0.85 * 30 * 40 * kMega);
}

// Beside one of cubic's connections.
class ShareTest : public HostFlowTest {
 public:
  explicit ShareTest(std::uint32_t share) : HostFlowTest(share) {}
  // Bytes a second that we get of the path.
  double Ours() {
    others_rate_ = 20 * kMega;
    others_grow_ = kMega / 2;
    others_fall_ = 0.3;
    SendOnly(0);
    Run(20);
    return Run(120).delivered / 120;
  }
  void TestBody() override {}
};

TEST(Share, OfMoreConnectionsIsMore) {
  double before = 0.15 * 100e6;
  for (const std::uint32_t share : {1, 2, 4, 8}) {
    const double ours = ShareTest(share).Ours();
    EXPECT_GT(ours, 1.1 * before) << share;
    before = ours;
  }
  EXPECT_LT(ShareTest(1).Ours(), 0.6 * 100e6);
}

TEST_F(HostFlowTest, NeighboursAreLeftAlone) {
  for (Sender& sender : senders_) sender.traffic.round_trip = std::chrono::microseconds(300);
  Run(10);
  for (const Sender& sender : senders_) EXPECT_EQ(pacer_.rate(sender.key), 0);
}

TEST_F(HostFlowTest, NeighboursAreNotHeldToTheUplinkOfThePathsThatAreFar) {
  senders_[2].traffic.round_trip = std::chrono::microseconds(300);
  Run(10);
  EXPECT_TRUE(senders_[0].load.held_by_uplink);
  EXPECT_FALSE(senders_[2].load.held_by_uplink);
  EXPECT_EQ(pacer_.rate(senders_[2].key), 0);
}

TEST_F(HostFlowTest, BurstsThatAreOverBeforeTheyAreMeasuredDoNotOverflow) {
  RunEachAlone(5);  // as probes do
  SendOnly(kNobody);
  Run(1);
  SendAll();
  Total bursts;
  for (int i = 0; i < 50; ++i) {
    for (Sender& sender : senders_) sender.left = 4 * kMega;
    for (int tick = 0; tick < 8; ++tick) Tick(bursts);
    for (const Sender& sender : senders_) ASSERT_LE(sender.left, 0) << "in the time that the uplink needs";
    if (i == 0) {
      EXPECT_EQ(bursts.lost, 0) << "from the first on";
    }
  }
  EXPECT_LT(bursts.lost, 0.01 * bursts.delivered);
}

TEST_F(HostFlowTest, TheLimitOfASlowPathIsNotTakenForTheUplinks) {
  eager_ = 60 * kMega;
  senders_[0].pipe.rate = 10 * kMega;
  SendOnly(0);
  Run(5);
  SendOnly(1);
  Run(5);
  ASSERT_EQ(pacer_.rate(senders_[1].key), 0) << "it was never overdriven";
  senders_[0].sends = true;
  EXPECT_GT(Run(1).by_path[1], 45 * kMega);
}

TEST_F(HostFlowTest, ThatAnUplinkTakesMoreThanAnyPathIsSoonFound) {
  for (Sender& sender : senders_) sender.pipe.rate = 20 * kMega;
  SendOnly(0);
  Run(5);
  SendAll();
  Run(3);  // as long as a probe lasts
  const Total total = Run(10);
  EXPECT_GT(total.delivered, 0.95 * 10 * 60 * kMega);
  EXPECT_LT(total.lost, 0.01 * total.delivered);
}

TEST_F(HostFlowTest, ThatAnUplinkTakesNoMoreThanOnePathIsSoonFound) {
  RunEachAlone(5);
  SendAll();
  const Total total = Run(3);
  EXPECT_GT(total.delivered, 0.9 * 3 * uplink_.rate);
  EXPECT_LT(total.lost, 0.1 * total.delivered) << "too much is tried twice at most";
  EXPECT_LT(Run(3).lost, 0.01 * total.delivered);
}

TEST_F(HostFlowTest, WhatASlowPathLosesIsNotTakenForTheUplinks) {
  for (Sender& sender : senders_) sender.pipe.rate = 20 * kMega;
  senders_[0].pipe.rate = 5 * kMega;
  RunEachAlone(10);
  senders_[0].pipe.rate = 0.1 * kMega;
  queue_back_ = milliseconds(20);
  SendAll();
  Run(3);
  EXPECT_GT(Run(1).delivered, 38 * kMega);
}

TEST_F(HostFlowTest, QueuesOfAllPathsAreNotTakenForTheUplinks) {
  Run(5);
  for (Sender& sender : senders_) sender.pipe.rate = 20 * kMega;
  RunEachAlone(10);
  for (Sender& sender : senders_) sender.pipe.rate = 15 * kMega;
  SendAll();
  Run(20);
  for (Sender& sender : senders_) EXPECT_LT(pacer_.rate(sender.key), 16 * kMega) << "each path is the limit";
  senders_[0].pipe.rate = 10'000 * kMega;
  SendOnly(0);
  Run(10);
  SendOnly(kNobody);
  Run(1);
  SendAll();
  const Total total = Run(1);
  EXPECT_GT(total.delivered, 0.8 * uplink_.rate) << "the uplink takes what it took";
}

TEST_F(HostFlowTest, ALimitBelowWhatAPathAloneCarriesGrows) {
  uplink_.rate = 20 * kMega;
  Run(5);
  uplink_.rate = 100 * kMega;
  SendOnly(0);
  Run(10);
  SendAll();
  Run(5);
  EXPECT_GT(Run(2).delivered, 1.8 * uplink_.rate);
}

TEST_F(HostFlowTest, WhatALimitWasRaisedByAndNobodyTriedIsNotKept) {
  SendOnly(0);
  Run(5);
  uplink_.rate = 200 * kMega;
  const auto rate = [&] { return pacer_.rate(senders_[0].key); };
  Total total;
  double before = rate();
  for (int window = 0; window < 40 && rate() < 1.2 * before; ++window) {
    before = rate();
    for (int tick = 0; tick < 4; ++tick) Tick(total);
  }
  const double raised = rate();
  SendOnly(1);
  Run(1);
  EXPECT_LT(rate(), raised / 1.1);
  EXPECT_GT(rate(), raised / 1.3);
}

TEST_F(HostFlowTest, WhoSendsAloneIsNotHeldToWhatAllOnceGotTogether) {
  uplink_.rate = 10 * kMega;
  Run(5);
  uplink_.rate = 100 * kMega;
  SendOnly(0);
  Run(10);
  EXPECT_GT(Run(10).delivered, 0.9 * 10 * uplink_.rate);
}

TEST_F(HostFlowTest, WhereSendingLessDoesNotHelpItIsNotDoneWithoutEnd) {
  SendOnly(0);
  others_rate_ = 110 * kMega;
  Run(2);
  const double before = Run(2).delivered;
  Run(60);
  EXPECT_GT(Run(2).delivered, 0.1 * before);
}

TEST_F(HostFlowTest, APolicerTakesNextToNothing) {
  uplink_.queue_seconds = 0;
  resends_ = true;
  for (const std::size_t only : {std::size_t{0}, kNobody}) {
    if (only == kNobody) SendAll();
    if (only != kNobody) SendOnly(only);
    Run(20);
    const Total total = Run(60);
    EXPECT_GT(total.delivered, 0.9 * 60 * uplink_.rate);
    EXPECT_LT(total.lost, 0.013 * total.delivered);
  }
}

TEST_F(HostFlowTest, TheNextPairToAHostStartsWithTheLastOnesLimit) {
  const PathKey& first = senders_[0].key;
  const PathKey next{.self = PeerId(8), .other = PeerId(9)};
  pacer_.OnLinked(first, "a", milliseconds(100), now_);
  pacer_.OnLinked(next, "a", milliseconds(100), now_);
  SendOnly(0);
  Run(10);
  const double limit = pacer_.rate(first);
  EXPECT_NEAR(limit, uplink_.rate, 0.1 * uplink_.rate);
  EXPECT_EQ(pacer_.rate(next), 0);  // each has its own
  pacer_.Forget(next.self);         // it measured nothing
  pacer_.Forget(first.self, first.other);
  pacer_.OnLinked(first, "b", milliseconds(100), now_);
  pacer_.OnLinked(next, "a", milliseconds(100), now_);
  EXPECT_EQ(pacer_.rate(first), 0);
  EXPECT_EQ(pacer_.rate(next), limit);
}

// Before its first sample.
TEST_F(HostFlowTest, ALinkThatIsFarIsNotTakenForNearby) {
  const PathKey path{.self = PeerId(8), .other = PeerId(9)};
  EXPECT_TRUE(pacer_.IsNearby(path));
  pacer_.OnLinked(path, "a", milliseconds(100), now_);
  EXPECT_FALSE(pacer_.IsNearby(path));
}

TEST_F(HostFlowTest, ReplacedLanesCountFromZero) {
  SendOnly(0);
  Run(5);
  const double before = pacer_.rate(senders_[0].key);
  senders_[0].traffic.delivered_bytes = senders_[0].traffic.resent_bytes = 0;
  Run(1);
  EXPECT_GT(pacer_.rate(senders_[0].key), 0.7 * before);
}

// All that there is fits into the lanes' windows, whose bursts overflow the path's queue: nothing ever waits for a
// lane.
class BurstsTest : public testing::Test {
 protected:
  // Five seconds of a path that delivers 50 MB/s.
  double LimitAfter(double lost_share, Duration queueing, Duration round_trip = milliseconds(100)) {
    const double delivered = 50 * kMega * kTickSeconds;
    const PathSample sample{.other = PeerId(2),
                            .traffic = {.delivered = delivered, .resent = delivered * lost_share, .queueing = queueing},
                            .unsent = true,
                            .round_trip = round_trip};
    HostFlow host;
    for (TimePoint now{}; now < TimePoint(milliseconds(5000)); now += kTick) {
      host.Add(PeerId(1), sample);
      host.Decide(now);
    }
    return host.rate({.self = PeerId(1), .other = PeerId(2)});
  }
};

TEST_F(BurstsTest, ThatOverflowTheQueueGetALimit) {
  const double limit = LimitAfter(0.13, milliseconds(80));
  EXPECT_GT(limit, 40 * kMega);
  EXPECT_LT(limit, 50 * kMega);
}

TEST_F(BurstsTest, WithoutLossesOrNearbyGetNone) {
  EXPECT_EQ(LimitAfter(0, milliseconds(80)), 0);
  EXPECT_EQ(LimitAfter(0.13, milliseconds(80), Duration(500)), 0);
}

}  // namespace
}  // namespace ringway::flow
