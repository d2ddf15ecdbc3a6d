#include "daemon/flow/lane_set.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace ringway::flow {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Picked = std::vector<std::size_t>;

constexpr Duration kLaneRoundTrip = milliseconds(50);
constexpr double kPace = 100e6;

// ---- windows of small lanes

constexpr LaneTraffic kFine{.round_trip = kLaneRoundTrip, .window_bytes = 40'000, .fresh_window_bytes = 14'000};
constexpr LaneTraffic kUnhealthy{.round_trip = kLaneRoundTrip, .window_bytes = 2'000, .fresh_window_bytes = 14'000};

// Two small lanes, beside four large ones that would be unhealthy.
class LaneSetWindowTest : public testing::Test {
 protected:
  std::optional<std::size_t> Judge(const LaneTraffic& first, const LaneTraffic& second) {
    std::vector<LaneState> states(6, {.up = true, .every_size = true});
    states[0].every_size = states[1].every_size = false;
    const std::vector<LaneTraffic> traffic = {first, second, kUnhealthy, kUnhealthy, kUnhealthy, kUnhealthy};
    const LaneLook look(states, traffic, 4);
    const auto replace = lanes_.Judge(look, lanes_.TakeTraffic(look), {.busy = true}, now_).replace;
    EXPECT_LE(replace.size(), 1U);
    return replace.empty() ? std::nullopt : std::optional(replace[0].lane);
  }
  // Returns how often the second lane is replaced in `time`, if every fresh one is unhealthy at once.
  int Replaced(Duration time) {
    int count = 0;
    for (const TimePoint end = now_ + time; now_ < end; now_ += milliseconds(50)) {
      count += Judge(kFine, kUnhealthy).has_value();
    }
    return count;
  }

  LaneSet lanes_;
  TimePoint now_{seconds(1000)};
};

TEST_F(LaneSetWindowTest, GivesTheLaneThatMaySendLessThanHalfOfAFreshOne) {
  EXPECT_EQ(Judge(kFine, kFine), std::nullopt);
  EXPECT_EQ(Judge(kFine, {.round_trip = kLaneRoundTrip, .window_bytes = 7'000, .fresh_window_bytes = 14'000}),
            std::nullopt);
  EXPECT_EQ(Judge(kFine, {.round_trip = kLaneRoundTrip, .window_bytes = 6'999, .fresh_window_bytes = 14'000}),
            std::optional<std::size_t>(1));
}

TEST_F(LaneSetWindowTest, WaitsUntilNothingIsOnItsWay) {
  LaneTraffic busy = kUnhealthy;
  busy.in_use = true;
  EXPECT_EQ(Judge(busy, kFine), std::nullopt);
  EXPECT_EQ(Judge(kUnhealthy, kFine), std::optional<std::size_t>(0));
}

TEST_F(LaneSetWindowTest, WhatIsNotKnownIsHealthy) {
  EXPECT_EQ(Judge({.round_trip = kLaneRoundTrip, .window_bytes = 0, .fresh_window_bytes = 14'000},
                  {.round_trip = kLaneRoundTrip, .window_bytes = 100, .fresh_window_bytes = 0}),
            std::nullopt);
}

TEST_F(LaneSetWindowTest, ReplacementsOfOneLaneDoNotHoldUpAnothers) {
  EXPECT_EQ(Judge(kUnhealthy, kUnhealthy), std::optional<std::size_t>(0));
  EXPECT_EQ(Judge(kUnhealthy, kUnhealthy), std::optional<std::size_t>(1));
  EXPECT_EQ(Judge(kUnhealthy, kUnhealthy), std::nullopt);
}

TEST_F(LaneSetWindowTest, APathThatIsSlowIsTriedLessAndLess) {
  EXPECT_EQ(Replaced(seconds(211)), 4) << "after 0, 30, 90 and 210 s";
  (void)Replaced(seconds(3600));
  EXPECT_LE(Replaced(seconds(3600)), 12);
}

TEST_F(LaneSetWindowTest, OneThatLastedIsReplacedSoonAgain) {
  EXPECT_EQ(Replaced(seconds(91)), 3);
  now_ += seconds(600);
  EXPECT_EQ(Replaced(seconds(31)), 2);
}

TEST_F(LaneSetWindowTest, FewPacketsARoundTripAreEnoughWhereThatIsShort) {
  LaneTraffic near = kUnhealthy;
  near.round_trip = milliseconds(9);
  EXPECT_EQ(Judge(near, kFine), std::nullopt);
}

// ---- resets of congestion control

class LaneSetResetTest : public testing::Test {
 protected:
  static constexpr std::size_t kSmall = 3;

  // `large`: the large lanes, which follow three small ones. Returns which of them are reset.
  Picked Judge(const std::vector<LaneTraffic>& large, double pace = kPace) {
    std::vector<LaneState> states(kSmall, {.up = true});
    std::vector<LaneTraffic> traffic(kSmall, {.rate = 1, .sending = true});
    states.resize(kSmall + large.size(), {.up = true, .every_size = true});
    traffic.insert(traffic.end(), large.begin(), large.end());
    states.resize(std::max<std::size_t>(states.size(), 9));
    traffic.resize(states.size());
    const LaneLook look(states, traffic, large.size());
    return Large(lanes_.Judge(look, lanes_.TakeTraffic(look), {.pace = pace}, now_).renew, large.size());
  }
  Picked AfterRest(double pace, TimePoint now) { return Large(lanes_.AfterRest(pace, now), large_); }

  LaneSet lanes_;
  TimePoint now_{seconds(100)};

 private:
  // After a rest small lanes, and those that are down, are picked too: nobody resets them.
  Picked Large(const Picked& picked, std::size_t large) {
    large_ = large;
    Picked out;
    for (const std::size_t lane : picked) {
      if (lane >= kSmall && lane < kSmall + large) out.push_back(lane - kSmall);
    }
    return out;
  }
  std::size_t large_ = 0;
};

TEST_F(LaneSetResetTest, SlowLanesBeginAgainAndOthersDoNot) {
  EXPECT_EQ(Judge({{.rate = 24e6}, {.rate = 26e6}, {.rate = 1e6}}), (Picked{0, 2}));
}

TEST_F(LaneSetResetTest, WithoutAPaceCongestionControlIsLeftAlone) { EXPECT_EQ(Judge({{.rate = 1e3}}, 0), Picked()); }

TEST_F(LaneSetResetTest, OfWhatIsNotKnownNothingIsSaid) { EXPECT_EQ(Judge({{.rate = 0}, {}}), Picked()); }

TEST_F(LaneSetResetTest, OfThoseThatSendOneAtATime) {
  const std::vector<LaneTraffic> lanes{{.rate = 5e6, .sending = true}, {.rate = 5e6, .sending = true}, {.rate = 5e6}};
  EXPECT_EQ(Judge(lanes), (Picked{0, 2}));
  now_ += milliseconds(100);
  EXPECT_EQ(Judge(lanes), (Picked{1}));
  now_ += milliseconds(100);
  EXPECT_EQ(Judge(lanes), Picked());
}

TEST_F(LaneSetResetTest, EachOnceASecondAtMostAndLessOftenWhereItDoesNotHelp) {
  const std::vector<LaneTraffic> slow{{.rate = 5e6}};
  std::vector<int> when;
  for (int tenth = 0; tenth <= 40; ++tenth, now_ += milliseconds(100)) {
    if (!Judge(slow).empty()) when.push_back(tenth);
  }
  EXPECT_EQ(when, (std::vector<int>{0, 10, 30})) << "tenths of a second";
  now_ += seconds(20);
  EXPECT_EQ(Judge(slow), Picked{0});
  now_ += seconds(1);
  EXPECT_EQ(Judge(slow), Picked{0}) << "it had helped for long";
}

TEST_F(LaneSetResetTest, InTenSecondsEachBeginsAgainAndNoTwoTogetherThatSend) {
  for (const std::size_t count : {1U, 8U, 21U, 53U, 79U}) {
    lanes_ = LaneSet();
    std::vector<LaneTraffic> lanes(count, {.rate = 50e6});
    std::vector<TimePoint> begun(count, now_);
    for (std::size_t tenth = 0; tenth < 900; ++tenth, now_ += milliseconds(100)) {
      const auto sends = [&](std::size_t lane) { return tenth < 300 || (tenth < 600 && lane % 2 == tenth % 2); };
      for (std::size_t i = 0; i < count; ++i) lanes[i].sending = sends(i);
      int of_senders = 0;
      for (const std::size_t lane : Judge(lanes)) {
        of_senders += sends(lane);
        EXPECT_GE(now_ - begun[lane], seconds(2));
        begun[lane] = now_;
      }
      ASSERT_LE(of_senders, 1);
      for (const TimePoint then : begun) ASSERT_LT(now_ - then, seconds(10));
    }
  }
}

TEST_F(LaneSetResetTest, InTurnOnlyWhileThereIsAPaceAndNotDuringRecovery) {
  const std::vector<LaneTraffic> recovers{{.rate = 0, .sending = true}, {.rate = 50e6, .sending = true}};
  EXPECT_EQ(Judge(recovers), Picked());
  now_ += seconds(9);
  EXPECT_EQ(Judge(recovers, 0), Picked());
  EXPECT_EQ(Judge(recovers), Picked{1});
}

TEST_F(LaneSetResetTest, AfterARestAllBeginAgainThatHaveNotJustDoneSo) {
  const std::vector<LaneTraffic> slow_and_fast{{.rate = 5e6}, {.rate = 50e6}};
  EXPECT_EQ(AfterRest(kPace, now_), Picked()) << "of no lanes";
  EXPECT_EQ(Judge(slow_and_fast), Picked{0});
  EXPECT_EQ(AfterRest(kPace, now_ + seconds(1)), Picked());
  now_ += seconds(2);
  EXPECT_EQ(AfterRest(0, now_), Picked()) << "there is no pace";
  EXPECT_EQ(AfterRest(kPace, now_), (Picked{0, 1}));
  EXPECT_EQ(AfterRest(kPace, now_ + seconds(1)), Picked());
}

TEST_F(LaneSetResetTest, TurnsGoOnAfterARestSoThatTheTenSecondsNeverPass) {
  std::vector<LaneTraffic> lanes(8, {.rate = 50e6});
  Judge(lanes);
  now_ += seconds(60);
  for (LaneTraffic& lane : lanes) lane.sending = true;
  ASSERT_EQ(AfterRest(kPace, now_).size(), lanes.size());
  std::vector<TimePoint> begun(lanes.size(), now_);
  for (int tenth = 0; tenth < 300; ++tenth, now_ += milliseconds(100)) {
    for (const std::size_t lane : Judge(lanes)) begun[lane] = now_;
    for (const TimePoint then : begun) ASSERT_LT(now_ - then, seconds(10));
  }
}

TEST_F(LaneSetResetTest, LanesThatAreNotInUseAreLeftAlone) {
  std::vector<LaneState> states(12, {.up = true, .every_size = true});
  for (const std::size_t small : {0, 1, 2}) states[small].every_size = false;
  const std::vector<LaneTraffic> traffic(12, {.rate = 1e6});
  const LaneLook look(states, traffic, 2);
  EXPECT_EQ(lanes_.Judge(look, lanes_.TakeTraffic(look), {.pace = kPace}, now_).renew, (Picked{3, 4}));
}

// ---- lanes that have stalled

// Two lanes, ticks of 100 ms, 50 ms round trip.
class LaneSetStallTest : public testing::Test {
 protected:
  // Returns the first lane reported as stalled meanwhile.
  std::optional<std::size_t> Run(double first, double second, int ticks) {
    const std::array rates = {first, second};
    const std::array<LaneState, 2> states = {{{.up = true}, {.up = true, .every_size = true}}};
    std::optional<std::size_t> stalled;
    for (int tick = 0; tick < ticks; ++tick) {
      now_ += milliseconds(100);
      for (std::size_t i = 0; i < rates.size(); ++i) {
        traffic_[i].delivered_bytes += static_cast<std::uint64_t>(rates[i] / 10);
      }
      const LaneLook look(states, traffic_, 1);
      const auto replace = lanes_.Judge(look, lanes_.TakeTraffic(look), {.busy = true}, now_).replace;
      if (!stalled && !replace.empty()) stalled = replace[0].lane;
    }
    return stalled;
  }

  LaneTraffic Busy() const { return {.round_trip = kLaneRoundTrip, .unsent = true}; }
  std::array<LaneTraffic, 2> traffic_ = {Busy(), Busy()};
  LaneSet lanes_;
  TimePoint now_{seconds(10)};
};

TEST_F(LaneSetStallTest, ALaneThatMovesNextToNothingIsGivenOnce) {
  EXPECT_EQ(Run(30e6, 30e6, 30), std::nullopt);
  EXPECT_EQ(Run(30e6, 50e3, 22), std::optional<std::size_t>(1));
  EXPECT_EQ(Run(30e6, 50e3, 1), std::nullopt);
}

TEST_F(LaneSetStallTest, SlowerIsNotStalledAndNeitherIsIdle) {
  EXPECT_EQ(Run(30e6, 3e6, 100), std::nullopt);
  traffic_[1].unsent = false;
  EXPECT_EQ(Run(30e6, 0, 100), std::nullopt);
}

TEST_F(LaneSetStallTest, AllMayHaveStalled) {
  Run(30e6, 30e6, 30);
  EXPECT_NE(Run(50e3, 50e3, 22), std::nullopt);
}

TEST_F(LaneSetStallTest, APathThatHasBecomeSlowIsBelieved) {
  Run(32e6, 32e6, 30);
  int replaced = 0;
  for (int second = 0; second < 120; ++second) {
    if (const auto lane = Run(100e3, 100e3, 10)) {
      ++replaced;
      traffic_[*lane].delivered_bytes = 0;
    }
  }
  EXPECT_GT(replaced, 0);
  EXPECT_LE(replaced, 2) << "32e6 / 2^2 / 256 is less than it moves";
}

TEST_F(LaneSetStallTest, AReceiverThatDoesNotReadIsNotTheLanesFault) {
  Run(30e6, 30e6, 30);
  for (int tick = 0; tick < 40; ++tick) {
    traffic_[1].receiver_limited += milliseconds(90);
    EXPECT_EQ(Run(30e6, 0, 1), std::nullopt);
  }
}

TEST_F(LaneSetStallTest, TimeThatNobodyLookedAtDoesNotCount) {
  Run(30e6, 30e6, 35);
  now_ += std::chrono::minutes(1);
  EXPECT_EQ(Run(30e6, 30e6, 30), std::nullopt);
}

TEST_F(LaneSetStallTest, LanesThatAllBecomeSlowerShareThePath) {
  Run(30e6, 30e6, 30);
  EXPECT_EQ(Run(1e6, 1e6, 100), std::nullopt);
}

TEST_F(LaneSetStallTest, ALaneThatAllOthersWaitForIsGivenSooner) {
  Run(30e6, 30e6, 30);
  traffic_[0].unsent = false;
  EXPECT_EQ(Run(0, 1e6, 22), std::optional<std::size_t>(1)) << "two busy lanes at this rate would share a slow path";
}

TEST_F(LaneSetStallTest, LongRoundTripsAreGivenTime) {
  for (LaneTraffic& lane : traffic_) lane.round_trip = milliseconds(400);
  Run(30e6, 30e6, 60);
  EXPECT_EQ(Run(30e6, 0, 30), std::nullopt);
  EXPECT_EQ(Run(30e6, 0, 60), std::optional<std::size_t>(1));
}

// ---- what they move

class LaneSetTrafficTest : public testing::Test {
 protected:
  Traffic Take() { return lanes_.TakeTraffic(LaneLook(states_, traffic_, 2)); }

  LaneSet lanes_;
  std::vector<LaneState> states_ = std::vector<LaneState>(3, {.up = true, .every_size = true});
  std::vector<LaneTraffic> traffic_ = std::vector<LaneTraffic>(
      3, {.delivered_bytes = 1000, .receiver_limited = milliseconds(7), .resent_bytes = 100, .sending = true});
};

TEST_F(LaneSetTrafficTest, WhatAllLanesMovedSinceTheLastLookIsAddedUp) {
  EXPECT_EQ(Take().delivered, 3000) << "since they were opened";
  for (LaneTraffic& lane : traffic_) {
    lane.delivered_bytes += 50;
    lane.resent_bytes += 5;
    lane.receiver_limited += milliseconds(2);
  }
  const Traffic tick = Take();
  EXPECT_EQ(tick.delivered, 150);
  EXPECT_EQ(tick.resent, 15);
  EXPECT_EQ(tick.receiver_limited, Duration(milliseconds(6)));
  EXPECT_EQ(Take().delivered, 0);
}

TEST_F(LaneSetTrafficTest, AReplacedLaneCountsFromZeroAndTakesNothingFromTheOthers) {
  (void)Take();
  lanes_.OnOpened(0, 3);
  traffic_[0].delivered_bytes = 1010;
  traffic_[1].delivered_bytes = 10;
  traffic_[2].delivered_bytes += 50;
  EXPECT_EQ(Take().delivered, 1060) << "a counter that falls adds nothing";
  states_[2] = {};
  traffic_[2] = {};
  traffic_[0].delivered_bytes += 7;
  EXPECT_EQ(Take().delivered, 7);
  states_[2].up = true;
  lanes_.OnOpened(2, 3);
  traffic_[2].delivered_bytes = 500;
  EXPECT_EQ(Take().delivered, 500);
}

TEST_F(LaneSetTrafficTest, TheQueueIsTheMeanOfTheLanesThatSend) {
  traffic_[0].sending = false;
  traffic_[0].queueing = milliseconds(90);
  traffic_[1].queueing = milliseconds(10);
  traffic_[1].variation = milliseconds(2);
  traffic_[2].queueing = milliseconds(30);
  traffic_[2].variation = milliseconds(20);
  EXPECT_EQ(Take().queueing, Duration(milliseconds(20)));
  EXPECT_EQ(Take().standing, Duration(milliseconds(2))) << "four and none: jitter explains the rest";
}

// ---- tails

TEST(TailProbeTest, ALaneThatSendsOnIsNotLookedAt) {
  TailProbe tail;
  EXPECT_FALSE(tail.pending());
  EXPECT_FALSE(tail.TakeTurn());
  for (int i = 0; i < 5; ++i) {
    tail.OnSegment();
    EXPECT_TRUE(tail.pending());
    EXPECT_FALSE(tail.TakeTurn());
  }
  EXPECT_TRUE(tail.TakeTurn());
}

TEST(TailProbeTest, ThreeFramesFollowTheLastSegmentOnceItHasLeft) {
  TailProbe tail;
  tail.OnSegment();
  (void)tail.TakeTurn();
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(tail.TakeTurn());
    EXPECT_FALSE(tail.OnLooked(true, true)) << "it is behind what has not left";
  }
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(tail.TakeTurn());
    EXPECT_TRUE(tail.OnLooked(false, true));
  }
  EXPECT_FALSE(tail.pending());
  EXPECT_FALSE(tail.TakeTurn());
}

TEST(TailProbeTest, WhatIsAcknowledgedNeedsNone) {
  TailProbe tail;
  tail.OnSegment();
  (void)tail.TakeTurn();
  ASSERT_TRUE(tail.TakeTurn());
  EXPECT_FALSE(tail.OnLooked(false, false));
  EXPECT_FALSE(tail.pending());
  tail.OnSegment();
  EXPECT_TRUE(tail.pending()) << "the next operation";
}

TEST(LaneSetTest, TailOfALaneThatClosesOrIsReplacedIsFollowedNoMore) {
  LaneSet lanes;
  lanes.OnSegment(1);
  EXPECT_FALSE(lanes.tail_pending()) << "there is none";
  for (const std::size_t lane : {0, 1}) lanes.OnOpened(lane, 2);
  lanes.OnSegment(1);
  EXPECT_FALSE(lanes.TakeTailTurn(1)) << "it sends";
  EXPECT_TRUE(lanes.TakeTailTurn(1));
  EXPECT_TRUE(lanes.OnTailLooked(1, {.sending = true}));
  lanes.OnClosed(1);
  EXPECT_FALSE(lanes.tail_pending());
  lanes.OnSegment(0);
  lanes.OnSegment(1);
  lanes.OnOpened(1, 2);
  EXPECT_TRUE(lanes.tail_pending()) << "the other's";
  lanes.OnAllClosed();
  EXPECT_FALSE(lanes.tail_pending());
}

}  // namespace
}  // namespace ringway::flow
