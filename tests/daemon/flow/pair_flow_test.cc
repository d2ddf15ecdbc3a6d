#include "daemon/flow/pair_flow.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

namespace ringway::flow {
namespace {

using Indices = std::vector<std::size_t>;
using std::chrono::milliseconds;

constexpr Duration kFar = milliseconds(100);
const PathKey kPath{.self = PeerId(1), .other = PeerId(2)};
const TimePoint kStart = TimePoint() + std::chrono::hours(1);

struct PairFlowTest : testing::Test {
  // A pair of so many lanes, seen as PairFlow sees any.
  struct Lanes {
    std::vector<LaneState> all;
    std::size_t size() const { return all.size(); }
    LaneState state(std::size_t i) const { return all[i]; }
  };

  void Make(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      lanes.all.push_back({.up = true, .every_size = i >= SmallLanes(count), .idle = true});
      flow.lanes().OnOpened(i, count);
    }
    traffic.assign(count, {.round_trip = kFar});
  }
  Indices Used(std::size_t large) const {
    Indices used;
    ForEachUsed(lanes, large, [&](std::size_t i) { used.push_back(i); });
    return used;
  }
  // The lanes that take `segments` of these bytes, in order. A lane has room for so many of them.
  Indices Take(int segments, std::size_t bytes, int room) {
    Indices took;
    std::size_t budget = 1 << 30;
    const std::size_t large = kSmallLanePayloadBytes + kSegmentHeaderBytes + 1;
    pumped = flow.Pump(lanes, budget, now, [&](std::size_t i) -> std::size_t {
      if (segments == 0 || (bytes >= large && !lanes.state(i).every_size)) return 0;
      --segments;
      took.push_back(i);
      lanes.all[i].idle = std::count(took.begin(), took.end(), i) < room;
      return bytes;
    });
    return took;
  }
  // Bytes that each lane gets; it is busy then, unless its connection takes all at once.
  std::map<std::size_t, std::size_t> Pump(std::size_t budget, std::size_t segment, bool stays_idle = false) {
    std::map<std::size_t, std::size_t> got;
    pumped = flow.Pump(lanes, budget, now, [&](std::size_t i) {
      got[i] += segment;
      lanes.all[i].idle = stays_idle;
      return segment;
    });
    return got;
  }
  PairFlow::Verdict Judge(bool waits) {
    EXPECT_TRUE(flow.Look(lanes.all, now));
    return flow.Judge(lanes.all, traffic, waits, now);
  }

  // A path of a thousand bytes a tick that loses as much.
  void PaceIt() {
    for (LaneState& lane : lanes.all) lane.idle = false;
    traffic[3].sending = true;
    for (int tick = 0; tick < 200; ++tick, now += milliseconds(50)) {
      traffic[3].delivered_bytes += 1000;
      traffic[3].resent_bytes += 1000;
      traffic[3].queueing = milliseconds(50);
      if (const auto sample = Judge(true).sample) host.Add(kPath.self, *sample);
      host.Decide(now);
      flow.pacer().Adopt();
    }
    ASSERT_GT(host.limit(kPath), 0);
  }

  HostFlow host;
  PairFlow flow{&host, kPath};
  Lanes lanes;
  std::vector<LaneTraffic> traffic;
  PairFlow::Pumped pumped;
  TimePoint now = kStart;
};

// Lanes that random losses bound: their sockets take all, and send it slowly.
TEST_F(PairFlowTest, LanesThatHoldAllThatWasToBeSentShowThatTheyAreTooFew) {
  Make(11);
  for (LaneTraffic& lane : traffic) {
    lane.round_trip = milliseconds(100);
    lane.sending = lane.unsent = true;
  }
  lanes.all[0].idle = false;  // there is something to look at
  const auto run = [&](int ticks) {
    for (int tick = 0; tick < ticks; ++tick, now += milliseconds(50)) {
      for (std::size_t lane = 3; lane < std::min<std::size_t>(11, 3 + flow.large_lanes(11)); ++lane) {
        traffic[lane].delivered_bytes += 10'000;
      }
      (void)Judge(false);
    }
  };
  traffic[4].unsent = false;
  run(100);
  EXPECT_EQ(flow.large_lanes(11), LaneScaler::kFirst) << "one has sent all";
  traffic[4].unsent = true;
  run(100);
  EXPECT_GT(flow.large_lanes(11), LaneScaler::kFirst);
}

TEST_F(PairFlowTest, LanesThatAreAllWritingWhileMoreWaitsAreTooFew) {
  Make(11);
  for (LaneState& lane : lanes.all) lane.idle = false;
  const auto run = [&](bool waits) {
    for (int tick = 0; tick < 100; ++tick, now += milliseconds(50)) {
      for (std::size_t lane = 3; lane < std::min<std::size_t>(11, 3 + flow.large_lanes(11)); ++lane) {
        traffic[lane].delivered_bytes += 10'000;
      }
      (void)Judge(waits);
    }
  };
  run(false);
  EXPECT_EQ(flow.large_lanes(11), LaneScaler::kFirst);
  run(true);
  EXPECT_GT(flow.large_lanes(11), LaneScaler::kFirst);
}

TEST_F(PairFlowTest, BurstsTooShortToJudgeShowNothingTogether) {
  Make(11);
  const auto tick = [&](bool sends) {
    for (LaneTraffic& lane : traffic) lane.sending = lane.unsent = lane.in_use = sends;
    lanes.all[0].idle = !sends;
    for (std::size_t lane = 3; lane < 11; ++lane) traffic[lane].delivered_bytes += sends ? 10'000 : 0;
    (void)Judge(false);
    now += milliseconds(50);
  };
  for (int burst = 0; burst < 100; ++burst) {
    for (int i = 0; i < 6; ++i) tick(true);
    tick(false);
    now += milliseconds(700);
    ASSERT_EQ(flow.large_lanes(11), LaneScaler::kFirst) << burst;
  }
}

TEST_F(PairFlowTest, RolesFollowFromTheCount) {
  const std::map<std::size_t, std::size_t> small{{0, 0}, {1, 0}, {2, 1}, {5, 1}, {6, 2}, {8, 2}, {9, 3}, {128, 3}};
  for (const auto& [count, expected] : small) EXPECT_EQ(SmallLanes(count), expected) << count;
}

TEST_F(PairFlowTest, UsedAreTheSmallOnesAndTheFirstLargeOnes) {
  Make(11);
  EXPECT_EQ(Used(4), (Indices{0, 1, 2, 3, 4, 5, 6}));
  lanes.all[1] = lanes.all[4] = {};
  EXPECT_EQ(Used(4), (Indices{0, 2, 3, 5, 6, 7})) << "the next ones stand in for what is down";
}

TEST_F(PairFlowTest, ALoneLaneIsUsed) {
  Make(1);
  EXPECT_EQ(Used(1), Indices{0});
}

TEST_F(PairFlowTest, SmallSegmentsOneByOneTakeTheSmallLanesInTurn) {
  Make(11);
  for (const std::size_t lane : {0, 1, 2, 0}) EXPECT_EQ(Take(1, 100, 2), Indices{lane});
  lanes.all[1] = {};
  EXPECT_EQ(Take(1, 100, 2), Indices{2});
}

TEST_F(PairFlowTest, ManySmallSegmentsTakeLanesOfBothKinds) {
  Make(11);
  lanes.all[1].idle = false;
  EXPECT_EQ(Take(7, 100, 2), (Indices{0, 2, 0, 3, 3, 4, 4}));
}

TEST_F(PairFlowTest, LargeLanesAreFilledInOrder) {
  Make(11);
  EXPECT_EQ(Take(5, 1 << 18, 3), (Indices{3, 3, 3, 4, 4}));
  lanes.all[3].idle = lanes.all[4].idle = true;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Take(1, 1 << 18, 3), Indices{3}) << "the first has room again";
  lanes.all[3].idle = false;
  lanes.all[4] = {};
  EXPECT_EQ(Take(9, 1 << 18, 2), (Indices{5, 5, 6, 6, 7, 7})) << "the next ones stand in for what is down";
}

TEST_F(PairFlowTest, WhereLossesDelayALaneTheLargeOnesTakeTurns) {
  Make(11);
  const auto look = [&](std::uint64_t delivered, std::uint64_t resent) {
    traffic[3].delivered_bytes += delivered;
    traffic[3].resent_bytes += resent;
    traffic[3].sending = true;
    lanes.all[3].idle = false;
    (void)Judge(false);
    lanes.all[3].idle = true;
  };
  look(1'000'000, 10'000);
  EXPECT_EQ(Take(3, 1 << 18, 5), (Indices{3, 3, 3})) << "too little to judge it";
  look(9'000'000, 0);
  EXPECT_EQ(Take(6, 1 << 18, 5), (Indices{3, 4, 5, 6, 3, 4}));
  EXPECT_EQ(Take(1, 1 << 18, 5), Indices{5}) << "after the last that took one";
  look(10'000'000, 1'000);
  EXPECT_EQ(Take(3, 1 << 18, 5), (Indices{3, 3, 3})) << "it loses no more";
  look(10'000'000, 100'000);
  traffic[3] = {.round_trip = kFar};
  EXPECT_EQ(Take(2, 1 << 18, 5), (Indices{3, 4}));
  look(1'000, 0);
  EXPECT_EQ(Take(2, 1 << 18, 5), (Indices{5, 6})) << "a replaced lane's totals are its own";
}

TEST_F(PairFlowTest, BetweenFarHostsThatSendNothingLargeSmallSegmentsFillTheLargeLanesFirst) {
  Make(11);
  PathSample far;
  far.other = kPath.other;
  far.round_trip = kFar;
  host.Add(kPath.self, far);
  EXPECT_EQ(Take(4, 100, 3), (Indices{3, 3, 3, 4}));
}

TEST_F(PairFlowTest, PumpEndsWithTheRoundThatItsBudgetEndsInAndBothKindsHaveTheirs) {
  Make(11);
  EXPECT_EQ(Pump(1000, 100, true), (std::map<std::size_t, std::size_t>{{0, 200}, {1, 200}, {2, 200}, {3, 800}}));
  EXPECT_TRUE(pumped.gave_far);
  EXPECT_TRUE(pumped.gave_large) << "however many small ones there are";
  EXPECT_TRUE(flow.lanes().tail_pending());
  now += milliseconds(1);
  EXPECT_EQ(Pump(1 << 20, 100).size(), 7U) << "each is busy then";
}

TEST_F(PairFlowTest, WithinAHostAllLanesAreUsedAndNothingIsWatched) {
  flow.SetWithinHost(true);
  Make(11);
  EXPECT_EQ(Pump(1 << 20, 100).size(), 11U);
  EXPECT_FALSE(pumped.gave_far);
  EXPECT_FALSE(flow.lanes().tail_pending());
  EXPECT_FALSE(flow.Look(lanes.all, now));
  EXPECT_FALSE(flow.TakeLanesWanted(now));
}

TEST_F(PairFlowTest, APacedPairThatSendsAfterARestRestartsItsLanes) {
  Make(11);
  PaceIt();
  const auto send = [&] {
    for (LaneState& lane : lanes.all) lane.idle = true;
    (void)Pump(1 << 20, 100);
    return flow.TakeRestarts(now);
  };
  now += std::chrono::seconds(3);
  const Indices after_rest = send();
  EXPECT_FALSE(after_rest.empty());
  now += std::chrono::seconds(1);
  EXPECT_EQ(send(), Indices{}) << "it has not rested";
  now += std::chrono::seconds(20);
  EXPECT_EQ(send(), after_rest);
}

TEST_F(PairFlowTest, IsNotLookedAtWhileNothingIsUnderWay) {
  Make(11);
  EXPECT_FALSE(flow.Look(lanes.all, now));
  lanes.all[5].idle = false;
  EXPECT_TRUE(flow.Look(lanes.all, now));
}

TEST_F(PairFlowTest, IsBackloggedWhileMoreWaitsAndAllLargeLanesInUseAreWriting) {
  Make(11);
  lanes.all[3].idle = false;
  EXPECT_FALSE(Judge(true).sample) << "the others have room";
  for (LaneState& lane : lanes.all) lane.idle = false;
  EXPECT_FALSE(Judge(false).sample) << "nothing waits";
  const auto sample = Judge(true).sample;
  ASSERT_TRUE(sample);
  EXPECT_TRUE(sample->backlogged);
  EXPECT_FALSE(sample->traffic.held);
  EXPECT_EQ(sample->round_trip, kFar);
  const auto last = Judge(false).sample;
  ASSERT_TRUE(last) << "that it is over is said once";
  EXPECT_FALSE(last->backlogged);
  EXPECT_FALSE(Judge(false).sample);
}

TEST_F(PairFlowTest, SamplesThatFollowOneAnotherSayWhatWasMovedBetweenThem) {
  Make(11);
  for (LaneState& lane : lanes.all) lane.idle = false;
  const auto tick = [&] {
    now += milliseconds(50);
    for (LaneTraffic& lane : traffic) {
      lane.delivered_bytes += 100;
      lane.receiver_limited += milliseconds(20);
    }
    flow.pacer().OnSent(2000, false, now);
  };
  (void)Judge(false);
  tick();
  const auto first = Judge(true).sample;
  ASSERT_TRUE(first);
  EXPECT_EQ(first->traffic.delivered, 0) << "it may have been longer than a tick";
  EXPECT_EQ(first->traffic.given, 0);
  EXPECT_FALSE(first->receiver_limited);
  tick();
  const auto next = Judge(true).sample;
  ASSERT_TRUE(next);
  EXPECT_EQ(next->traffic.delivered, 1100);
  EXPECT_EQ(next->traffic.given, 2000);
  EXPECT_TRUE(next->receiver_limited);
  tick();
  (void)flow.Look(lanes.all, now);
  tick();
  EXPECT_EQ(Judge(true).sample->traffic.delivered, 0) << "a tick is missing";
}

TEST_F(PairFlowTest, SmallLanesAloneAreReplacedForTheirWindowWhereThePathIsFar) {
  Make(11);
  for (LaneTraffic& lane : traffic) lane.window_bytes = 1000, lane.fresh_window_bytes = 14'000;
  traffic[1].window_bytes = 20'000;
  traffic[2].round_trip = kFar / 50;
  lanes.all[5].idle = false;
  Indices replaced;
  for (int tick = 0; tick < 3; ++tick, now += milliseconds(50)) {
    for (const auto& replacement : Judge(true).replace) replaced.push_back(replacement.lane);
  }
  EXPECT_EQ(replaced, Indices{0});
}

TEST_F(PairFlowTest, EachLaneMaySendABitMoreThanAllTogetherAndSmallOnesEnoughForAnOperation) {
  Make(11);
  EXPECT_EQ(flow.pacer().BurstLimit(true), 0);
  PaceIt();
  EXPECT_DOUBLE_EQ(flow.pacer().BurstLimit(true), 1.5 * host.limit(kPath));
  EXPECT_EQ(flow.pacer().BurstLimit(false), 1e6);
  for (LaneState& lane : lanes.all) lane.idle = true;
  const auto got = Pump(1 << 20, 60'000);
  EXPECT_GT(pumped.wait, Duration()) << "large ones wait for the pace";
  EXPECT_GE(got.size(), 3U) << "small ones do not";
}

}  // namespace
}  // namespace ringway::flow
