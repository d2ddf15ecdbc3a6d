#include "daemon/flow/rate_limit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>

namespace ringway::flow {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kRoundTrip = milliseconds(100);
constexpr Duration kQueue = milliseconds(30);

class RateLimitTest : public testing::Test {
 protected:
  static constexpr double kMega = 1e6;

  // A path of `rate` that somebody drives as fast as he may. `other_queue`: on the way back, behind what others send.
  void Run(int windows, double rate, Duration other_queue = {}) {
    for (int i = 0; i < windows; ++i) {
      const double offered = ceiling_.limit() > 0 ? ceiling_.limit() : 3 * rate;
      const double seen = std::exchange(offered_, offered);
      const bool over = (late_ ? seen : offered) > 1.02 * rate;
      ceiling_.Judge({.given = offered,
                      .delivered = std::min(offered, rate),
                      .lost_share = over ? 0.1 : 0,
                      .queueing = std::max(over ? kQueue : Duration(), other_queue),
                      .round_trip = kRoundTrip,
                      .held = ceiling_.limit() > 0});
      overdriven_ += over;
      highest_ = std::max(highest_, ceiling_.limit());
    }
  }

  RateLimit ceiling_;
  bool late_ = false;  // queue and losses show a window after the bytes that made them
  double offered_ = 0;
  int overdriven_ = 0;
  double highest_ = 0;
};

TEST_F(RateLimitTest, AWhileInWhichNextToNothingArrivedIsMadeUpForSoon) {
  Run(50, 50 * kMega);
  ASSERT_GT(ceiling_.limit(), 45 * kMega);
  for (int i = 0; i < 20; ++i) {
    ceiling_.Judge({.delivered = 0.2 * kMega, .lost_share = 0.3, .queueing = kQueue, .round_trip = kRoundTrip});
  }
  ASSERT_LT(ceiling_.limit(), kMega);
  Run(8, 50 * kMega, kQueue);
  EXPECT_GT(ceiling_.limit(), 25 * kMega);
}

TEST_F(RateLimitTest, ABrownoutLeavesALimitFromWhichThePathRecovers) {
  Run(50, 50 * kMega);
  for (int i = 0; i < 200; ++i) {
    ceiling_.Judge({.given = ceiling_.limit(),
                    .delivered = 1e3,
                    .lost_share = 0.3,
                    .queueing = kQueue,
                    .round_trip = kRoundTrip,
                    .held = true});
    ceiling_.Rest();
    ASSERT_GE(ceiling_.limit(), 128 << 10) << "after " << i << " windows";
  }
  EXPECT_LT(ceiling_.limit(), kMega);
  Run(50, 50 * kMega);
  EXPECT_GT(ceiling_.limit(), 40 * kMega);
}

TEST_F(RateLimitTest, APathThatHasBecomeSlowIsBelieved) {
  Run(50, 4 * kMega);
  const int always_slow = std::exchange(overdriven_, 0);
  ceiling_ = RateLimit();
  Run(50, 100 * kMega);
  overdriven_ = 0;
  Run(50, 4 * kMega);
  EXPECT_LT(ceiling_.limit(), 5 * kMega);
  EXPECT_LE(overdriven_, always_slow + 18)
      << "on the way down, by halves every other window, then as often as any path is tried for more";
  overdriven_ = 0;
  Run(50, 4 * kMega);
  EXPECT_LE(overdriven_, always_slow + 1);
}

TEST_F(RateLimitTest, APathThatHasBecomeSlowIsBelievedThoughItShowsLate) {
  late_ = true;
  Run(50, 100 * kMega);
  Run(50, 30 * kMega);
  highest_ = 0;
  Run(200, 30 * kMega);
  EXPECT_LT(highest_, 50 * kMega) << "it is doubled no more";
}

TEST_F(RateLimitTest, ALimitThatNothingWaitsForStays) {
  Run(50, 50 * kMega);
  const double limit = ceiling_.limit();
  for (int i = 0; i < 20; ++i) ceiling_.Judge({.delivered = limit, .round_trip = kRoundTrip, .held = false});
  EXPECT_EQ(ceiling_.limit(), limit);
  ceiling_.Judge({.delivered = limit, .round_trip = kRoundTrip, .held = true});
  EXPECT_GT(ceiling_.limit(), limit);
}

TEST_F(RateLimitTest, WhatWasSentBeforeItWasLoweredDoesNotLowerItAgain) {
  const RateLimit::Window overdriven{
      .delivered = 50 * kMega, .lost_share = 0.1, .queueing = kQueue, .round_trip = kRoundTrip};
  RateLimit::Window late = overdriven;
  late.delivered = 10 * kMega;
  ceiling_.Judge(overdriven);
  const double limit = ceiling_.limit();
  ceiling_.Judge(late);
  EXPECT_EQ(ceiling_.limit(), limit);
  ceiling_.Judge(late);
  EXPECT_LT(ceiling_.limit(), limit);
}

TEST_F(RateLimitTest, OneWindowThatSaysTooLittleLowersItByLessThanThat) {
  Run(50, 50 * kMega);
  ceiling_.Judge({.delivered = 50 * kMega, .round_trip = kRoundTrip, .held = true});
  ceiling_.Judge({.delivered = 50 * kMega, .round_trip = kRoundTrip, .held = true});
  ceiling_.Judge({.delivered = 30 * kMega, .lost_share = 0.1, .queueing = kQueue, .round_trip = kRoundTrip});
  EXPECT_GT(ceiling_.limit(), 37 * kMega);
}

TEST_F(RateLimitTest, AQueueThatTheLimitBuildsUpEndsItsGrowth) {
  Run(50, 50 * kMega);
  ceiling_.Judge({.delivered = 50 * kMega, .round_trip = kRoundTrip, .held = true});
  for (int i = 0; i < 300; ++i) {
    ceiling_.Judge({.given = ceiling_.limit(),
                    .delivered = std::min(ceiling_.limit(), 50 * kMega),
                    .queueing = ceiling_.limit() > 50 * kMega ? kQueue : Duration(),
                    .round_trip = kRoundTrip,
                    .held = true});
    ASSERT_LT(ceiling_.limit(), 53 * kMega) << "nothing is lost, but no more arrives";
  }
  EXPECT_GT(ceiling_.limit(), 49 * kMega);
}

// A ring's link waits for the others' between segments, and busy hosts answer late.
TEST_F(RateLimitTest, APathThatIsNotUsedToTheLimitKeepsItThoughItsDelayIsNoisy) {
  Run(50, 50 * kMega);
  const double limit = ceiling_.limit();
  for (int i = 0; i < 300; ++i) {
    const double rate = std::min(0.85 * ceiling_.limit(), 45 * kMega);
    ceiling_.Judge({.given = rate, .delivered = rate, .queueing = kQueue, .round_trip = kRoundTrip, .held = true});
    if (i % 5 == 4) ceiling_.Rest();
    ASSERT_GT(ceiling_.limit(), 0.9 * limit) << i;
  }
}

TEST_F(RateLimitTest, OthersQueueThatComesAndGoesTakesItNoLower) {
  Run(50, 50 * kMega);
  for (int i = 0; i < 600; ++i) {
    const double rate = std::min(ceiling_.limit(), 50 * kMega);
    ceiling_.Judge({.given = ceiling_.limit(),
                    .delivered = rate,
                    .queueing = i % 2 == 0 ? kQueue : Duration(),
                    .round_trip = kRoundTrip,
                    .held = true});
    ASSERT_GT(ceiling_.limit(), 0.9 * 50 * kMega) << i;
  }
}

// The buffers hold half a second, and nobody else fills them.
TEST_F(RateLimitTest, AQueueOfOursIsDrainedHoweverLong) {
  Run(50, 50 * kMega);
  double waiting_s = 0.45;
  double longest_s = 0;
  for (int i = 0; i < 400; ++i) {
    const double given = ceiling_.limit();
    waiting_s = std::clamp(waiting_s + 0.2 * (given / (50 * kMega) - 1), 0.0, 0.5);
    ceiling_.Judge({.given = given,
                    .delivered = waiting_s > 0 ? 50 * kMega : given,
                    .lost_share = waiting_s >= 0.5 ? 0.02 : 0,
                    .queueing = Duration(static_cast<std::int64_t>(waiting_s * 1e6)),
                    .round_trip = milliseconds(50),
                    .held = true});
    if (i >= 100) longest_s = std::max(longest_s, waiting_s);
  }
  EXPECT_LT(longest_s, 0.05);
}

TEST_F(RateLimitTest, WhatConnectionsSlowDownToByThemselvesIsNotWhatThePathCarries) {
  Run(50, 50 * kMega);
  RateLimit::Window slow{.delivered = 35 * kMega, .queueing = kQueue, .round_trip = kRoundTrip};
  for (int i = 0; i < 5; ++i) ceiling_.Judge(slow);
  slow.lost_share = 0.05;
  ceiling_.Judge(slow);
  EXPECT_GT(ceiling_.limit(), 40 * kMega);
  Run(30, 50 * kMega, kQueue);
  EXPECT_GT(ceiling_.limit(), 46 * kMega) << "a queue on the way back does not hold it down";
}

TEST_F(RateLimitTest, ABurstThatOverflowsSaysLittleOfThePath) {
  Run(50, 50 * kMega);
  ceiling_.Judge({.delivered = 20 * kMega, .lost_share = 0.05, .queueing = kQueue, .round_trip = kRoundTrip});
  EXPECT_GT(ceiling_.limit(), 46 * kMega) << "less was sent than it may take";
  Run(10, 50 * kMega);
  EXPECT_GT(ceiling_.limit(), 49 * kMega);
}

TEST_F(RateLimitTest, WhereConnectionsSlowDownByThemselvesAgainAndAgainItIsBelieved) {
  Run(50, 50 * kMega);
  RateLimit::Window window{.delivered = 20 * kMega, .queueing = kQueue, .round_trip = kRoundTrip};
  for (int i = 0; i < 300; ++i) {
    window.lost_share = i % 3 == 0 ? 0.05 : 0.002;
    ceiling_.Judge(window);
  }
  EXPECT_LT(ceiling_.limit(), 25 * kMega);
}

TEST_F(RateLimitTest, APauseTakesItNoLowerThanSendingLessHelps) {
  Run(50, 40 * kMega);
  for (int i = 0; i < 120; ++i) {
    ceiling_.Judge({.delivered = ceiling_.limit() / 2,
                    .lost_share = 0.1,
                    .queueing = kQueue,
                    .round_trip = kRoundTrip,
                    .held = true});
    ceiling_.Rest();
  }
  EXPECT_GT(ceiling_.limit(), kMega);
}

TEST_F(RateLimitTest, APauseDoesNotUndoWhatWasMadeUpFor) {
  Run(50, 50 * kMega);
  for (int i = 0; i < 20; ++i) {
    ceiling_.Judge({.delivered = 0.2 * kMega, .lost_share = 0.3, .queueing = kQueue, .round_trip = kRoundTrip});
  }
  ASSERT_LT(ceiling_.limit(), 2 * kMega);
  for (int i = 0; i < 8; ++i) {
    Run(1, 50 * kMega, kQueue);
    ceiling_.Rest();
  }
  EXPECT_GT(ceiling_.limit(), 20 * kMega);
}

TEST_F(RateLimitTest, WhereItOncePassedItIsNotGentleAgain) {
  Run(50, 30 * kMega);
  Run(15, 50 * kMega);
  EXPECT_GT(ceiling_.limit(), 45 * kMega) << "what was too much before is not";
}

TEST_F(RateLimitTest, WithoutOverdrivingThereIsNone) {
  for (int i = 0; i < 20; ++i) {
    ceiling_.Judge({.delivered = 50 * kMega, .lost_share = 0.2, .queueing = {}, .round_trip = kRoundTrip});
    ceiling_.Judge({.delivered = 50 * kMega, .lost_share = 0, .queueing = kQueue, .round_trip = kRoundTrip});
  }
  EXPECT_EQ(ceiling_.limit(), 0);
}

TEST_F(RateLimitTest, WhatAPathAlwaysLosesIsNoSignalThoughItJitters) {
  Run(50, 50 * kMega);
  for (int i = 0; i < 400; ++i) {
    ceiling_.Judge({.delivered = 0.985 * std::min(ceiling_.limit(), 50 * kMega),
                    .lost_share = i % 2 == 0 ? 0.013 : 0.022,
                    .queueing = milliseconds(8),
                    .round_trip = kRoundTrip,
                    .held = ceiling_.limit() < 50 * kMega});
    if (i < 100) continue;
    ASSERT_GT(ceiling_.limit(), 45 * kMega) << i;
  }
}

TEST_F(RateLimitTest, LossesBesideJitterAreNoReasonForTheFirstWhileMoreLanesMayCarryMore) {
  RateLimit::Window window{.delivered = 2 * kMega,
                           .lost_share = 0.03,
                           .queueing = milliseconds(9),
                           .round_trip = kRoundTrip,
                           .few_lanes = true};
  for (int i = 0; i < 50; ++i) {
    window.lost_share = i % 2 == 0 ? 0.07 : 0.03;
    ceiling_.Judge(window);
  }
  EXPECT_EQ(ceiling_.limit(), 0);
  window.few_lanes = false;
  ceiling_.Judge(window);
  EXPECT_TRUE(ceiling_.known()) << "more lanes were tried";
}

TEST_F(RateLimitTest, FewLanesThatOverdriveTheirPathAreHeldAllTheSame) {
  RateLimit::Window window{.delivered = 50 * kMega, .round_trip = kRoundTrip, .few_lanes = true};
  window.lost_share = 0.1;
  ceiling_.Judge(window);
  ceiling_.Judge(window);
  EXPECT_TRUE(ceiling_.known()) << "a policer";
  ceiling_ = RateLimit();
  window.lost_share = 0.03;
  window.queueing = window.standing = kQueue;
  ceiling_.Judge(window);
  ceiling_.Judge(window);
  EXPECT_TRUE(ceiling_.known()) << "a long queue";
  ceiling_ = RateLimit();
  ceiling_.Assume(40 * kMega);
  window.queueing = milliseconds(9);
  window.standing = {};
  ceiling_.Judge(window);
  EXPECT_FALSE(ceiling_.known()) << "assumed is not found";
}

TEST_F(RateLimitTest, APolicerIsFoundByItsLossesThoughItMakesNoQueue) {
  double dropped = 0;
  for (int i = 0; i < 400; ++i) {
    const double offered = ceiling_.limit() > 0 ? ceiling_.limit() : 150 * kMega;
    const double lost = std::max(0.0, 1 - 50 * kMega / offered);
    ceiling_.Judge({.delivered = std::min(offered, 50 * kMega),
                    .lost_share = lost,
                    .queueing = {},
                    .round_trip = kRoundTrip,
                    .held = ceiling_.limit() > 0});
    if (i < 20) continue;
    dropped += lost;
    ASSERT_GT(ceiling_.limit(), 40 * kMega) << i;
    ASSERT_LT(ceiling_.limit(), 65 * kMega) << i;
  }
  EXPECT_LT(dropped / 380, 0.03);
}

TEST_F(RateLimitTest, AnAssumedLimitGivesWayToWhatArrives) {
  ceiling_.Assume(20 * kMega);
  EXPECT_EQ(ceiling_.limit(), 20 * kMega);
  ceiling_.Judge({.delivered = 60 * kMega, .round_trip = kRoundTrip});
  EXPECT_EQ(ceiling_.limit(), 60 * kMega);
  ceiling_.Judge({.delivered = 30 * kMega, .round_trip = kRoundTrip});
  EXPECT_EQ(ceiling_.limit(), 60 * kMega) << "something else was the limit";
}

TEST_F(RateLimitTest, AnAssumedLimitGivesWayToTheFirstThatIsFound) {
  ceiling_.Assume(20 * kMega);
  ceiling_.Judge({.delivered = 50 * kMega, .lost_share = 0.1, .queueing = kQueue, .round_trip = kRoundTrip});
  EXPECT_FALSE(ceiling_.assumed());
  EXPECT_NEAR(ceiling_.limit(), 48 * kMega, kMega);
}

TEST_F(RateLimitTest, AnAssumedLimitGrowsThoughSomeIsLostElsewhere) {
  ceiling_.Assume(20 * kMega);
  for (int i = 0; i < 10; ++i) {
    ceiling_.Judge({.delivered = 0.9 * ceiling_.limit(),
                    .lost_share = 0.03,
                    .queueing = kQueue,
                    .round_trip = kRoundTrip,
                    .held = true});
  }
  EXPECT_GT(ceiling_.limit(), 100 * kMega);
  EXPECT_TRUE(ceiling_.assumed());
  const double limit = ceiling_.limit();
  ceiling_.Judge(
      {.delivered = 0.9 * limit, .lost_share = 0.2, .queueing = kQueue, .round_trip = kRoundTrip, .held = true});
  EXPECT_LT(ceiling_.limit(), limit) << "that is no other path's doing";
}

TEST_F(RateLimitTest, AnAssumedLimitGrowsNoFurtherWhereNotMoreArrives) {
  late_ = true;
  ceiling_.Assume(20 * kMega);
  Run(4, 20 * kMega);
  EXPECT_LE(highest_, 25 * kMega);
  EXPECT_NEAR(ceiling_.limit(), 19.5 * kMega, 0.5 * kMega) << "what was tried in vain does not count";
}

TEST_F(RateLimitTest, AnAssumedLimitGrowsWithTheLanesWhileThereMayBeMore) {
  ceiling_.Assume(20 * kMega);
  RateLimit::Window window{.delivered = 15 * kMega, .lost_share = 0.02, .round_trip = kRoundTrip, .held = true};
  for (int i = 0; i < 4; ++i) ceiling_.Judge(window);
  EXPECT_LE(ceiling_.limit(), 25 * kMega);
  window.few_lanes = true;
  window.delivered = 20 * kMega;
  for (int i = 0; i < 4; ++i) ceiling_.Judge(window);
  EXPECT_GE(ceiling_.limit(), 28 * kMega) << "deliveries vary, and more lanes are held to it as well";
  EXPECT_TRUE(ceiling_.assumed());
}

// The queue may be so long, or congestion control so careful, that nothing is lost.
TEST_F(RateLimitTest, AnAssumedLimitEndsWhereAQueueGrowsThoughNothingIsLost) {
  ceiling_.Assume(60 * kMega);
  for (int i = 0; i < 6; ++i) {
    ceiling_.Judge({.given = ceiling_.limit(),
                    .delivered = 50 * kMega,
                    .queueing = kQueue,
                    .round_trip = kRoundTrip,
                    .held = true});
  }
  EXPECT_TRUE(ceiling_.known());
  EXPECT_LT(ceiling_.limit(), 60 * kMega);
}

TEST_F(RateLimitTest, AnAssumedLimitGrowsOnAfterAPause) {
  ceiling_.Assume(20 * kMega);
  const auto hold = [&] {
    ceiling_.Judge({.delivered = 18 * kMega, .lost_share = 0, .queueing = {}, .round_trip = kRoundTrip, .held = true});
  };
  hold();
  ceiling_.Rest();
  EXPECT_NEAR(ceiling_.limit(), 21 * kMega, 0.1 * kMega);
  hold();
  EXPECT_GT(ceiling_.limit(), 25 * kMega);
}

TEST_F(RateLimitTest, AnAssumedLimitThatIsHeldGrows) {
  ceiling_.Assume(20 * kMega);
  Run(20, 100 * kMega);
  EXPECT_GT(ceiling_.limit(), 90 * kMega);
}

// Drives a path of `bandwidth` bytes per second over its limit.
RateLimit Measured(double bandwidth) {
  RateLimit out;
  for (int i = 0; i < 4; ++i) {
    out.Judge({.given = bandwidth,
               .delivered = bandwidth,
               .lost_share = 0.05,
               .queueing = milliseconds(60),
               .round_trip = milliseconds(100)});
  }
  return out;
}

class PathMemoryTest : public testing::Test {
 protected:
  TimePoint now_{seconds(1000)};
  PathMemory memory_{kShareDefault};
};

TEST_F(PathMemoryTest, AnUnknownHostHasNoLimit) {
  memory_.Keep("a", Measured(50e6), now_);
  EXPECT_EQ(memory_.Recall("b", now_).limit(), 0);
}

TEST_F(PathMemoryTest, AKnownHostHasTheLimitThatWasMeasured) {
  const RateLimit measured = Measured(50e6);
  ASSERT_GT(measured.limit(), 0);
  memory_.Keep("a", measured, now_);
  const RateLimit recalled = memory_.Recall("a", now_ + PathMemory::kFresh);
  EXPECT_EQ(recalled.limit(), measured.limit());
  EXPECT_EQ(recalled.carries(), measured.carries());
  EXPECT_TRUE(recalled.known());
}

TEST_F(PathMemoryTest, AnOldLimitIsOnlyAssumed) {
  const RateLimit measured = Measured(50e6);
  memory_.Keep("a", measured, now_);
  const RateLimit recalled = memory_.Recall("a", now_ + PathMemory::kFresh + milliseconds(1));
  EXPECT_EQ(recalled.limit(), measured.limit());
  EXPECT_TRUE(recalled.assumed());
}

TEST_F(PathMemoryTest, APathThatWasNeverFullStartsSomewhatAboveWhatPassed) {
  RateLimit measured;
  measured.Judge({.given = 50e6, .delivered = 50e6, .round_trip = milliseconds(100)});
  ASSERT_EQ(measured.limit(), 0);
  memory_.Keep("a", measured, now_);
  for (const Duration age : {Duration(), 2 * Duration(PathMemory::kFresh)}) {
    const RateLimit recalled = memory_.Recall("a", now_ + age);
    EXPECT_GT(recalled.limit(), 50e6);
    EXPECT_LT(recalled.limit(), 75e6);
    EXPECT_TRUE(recalled.assumed());
  }
}

TEST_F(PathMemoryTest, APathThatWasFullAndNeverOverdrivenStartsWithItsBandwidth) {
  RateLimit measured;
  for (int i = 0; i < 3; ++i) measured.Judge({.given = 50e6, .delivered = 50e6, .round_trip = milliseconds(100)});
  ASSERT_TRUE(measured.is_measured());
  memory_.Keep("a", measured, now_);
  const RateLimit recalled = memory_.Recall("a", now_);
  EXPECT_EQ(recalled.limit(), 50e6);
  EXPECT_EQ(recalled.carries(), 50e6);
  EXPECT_FALSE(recalled.is_measured()) << "by this pair";
}

TEST_F(PathMemoryTest, APathOnWhichNothingPassedHasNone) {
  memory_.Keep("a", RateLimit(), now_);
  const RateLimit recalled = memory_.Recall("a", now_ + 2 * PathMemory::kFresh);
  EXPECT_EQ(recalled.limit(), 0);
  EXPECT_FALSE(recalled.assumed());
}

TEST_F(PathMemoryTest, WhatWasMeasuredLastCounts) {
  const RateLimit last = Measured(50e6);
  memory_.Keep("a", Measured(20e6), now_);
  memory_.Keep("a", last, now_ + seconds(2));
  memory_.Keep("a", Measured(80e6), now_ + seconds(1));
  EXPECT_EQ(memory_.Recall("a", now_ + seconds(2)).limit(), last.limit());
}

TEST_F(PathMemoryTest, TheHostMeasuredLongestAgoIsForgottenWhereThereAreTooMany) {
  const RateLimit measured = Measured(50e6);
  memory_.Keep("z", measured, now_);
  for (std::size_t i = 1; i < PathMemory::kHostsMax; ++i) memory_.Keep(std::to_string(i), measured, now_ + seconds(1));
  EXPECT_GT(memory_.Recall("z", now_).limit(), 0);
  memory_.Keep("a", measured, now_ + seconds(2));
  EXPECT_EQ(memory_.Recall("z", now_).limit(), 0);
  EXPECT_GT(memory_.Recall("1", now_).limit(), 0);
  EXPECT_GT(memory_.Recall("a", now_).limit(), 0);
}

}  // namespace
}  // namespace ringway::flow
