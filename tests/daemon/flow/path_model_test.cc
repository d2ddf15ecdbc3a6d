#include "daemon/flow/path_model.h"

#include <gtest/gtest.h>

namespace ringway::flow {
namespace {

using std::chrono::milliseconds;
using Limit = PathModel::Limit;

constexpr PathModel::Window kQuiet{.given = 50e6, .delivered = 50e6, .round_trip = milliseconds(160)};

PathModel::Window With(double lost_share, Duration queueing) {
  PathModel::Window window = kQuiet;
  window.lost_share = lost_share;
  window.queueing = queueing;
  return window;
}

TEST(PathModelTest, QueueIsWhatExceedsASixteenthOfTheRoundTripAndALongOneAnEighth) {
  PathModel model;
  EXPECT_FALSE(model.Read(With(0, milliseconds(10)), Limit::kMeasured).queue);
  EXPECT_TRUE(model.Read(With(0, milliseconds(11)), Limit::kMeasured).queue);
  EXPECT_FALSE(model.Read(With(0, milliseconds(20)), Limit::kMeasured).long_queue);
  EXPECT_TRUE(model.Read(With(0, milliseconds(21)), Limit::kMeasured).long_queue);
}

TEST(PathModelTest, OverdrivenIsAQueueWithLossesOrMoreLossesTwiceWithNobodyElse) {
  PathModel model;
  EXPECT_TRUE(model.Read(With(0.011, milliseconds(30)), Limit::kMeasured).overdriven);
  EXPECT_FALSE(model.Read(With(0.009, milliseconds(30)), Limit::kMeasured).overdriven);
  EXPECT_FALSE(model.Read(With(0.03, {}), Limit::kMeasured).overdriven) << "once";
  EXPECT_TRUE(model.Read(With(0.03, {}), Limit::kMeasured).overdriven);
  PathModel::Window beside = With(0.03, {});
  beside.alone = false;
  EXPECT_FALSE(model.Read(beside, Limit::kMeasured).overdriven);
  EXPECT_FALSE(model.Read(With(0.03, {}), Limit::kMeasured).overdriven) << "the window before may be another's";
}

TEST(PathModelTest, OwnLossesAndDelayAreExpected) {
  PathModel model;
  for (int i = 0; i < 10; ++i) model.AddOwn(With(0.02, milliseconds(8)));
  const auto signs = model.Read(With(0.045, milliseconds(17)), Limit::kMeasured);
  EXPECT_FALSE(signs.queue);
  EXPECT_FALSE(signs.lossy) << "twice what was measured";
  EXPECT_TRUE(model.Read(With(0.055, milliseconds(19)), Limit::kMeasured).overdriven);
}

TEST(PathModelTest, GrowthBeforeTheFirstLimitIsNotOverload) {
  PathModel model;
  PathModel::Window growing = With(0.05, milliseconds(30));
  for (int i = 0; i < 5; ++i, growing.delivered *= 1.3) {
    EXPECT_FALSE(model.Read(growing, Limit::kNone).overdriven);
  }
  growing.lost_share = 0.07;
  EXPECT_TRUE(model.Read(growing, Limit::kNone).overdriven);
}

TEST(PathModelTest, LongQueueThatStaysIsForeignUntilItIsGoneForLong) {
  PathModel model;
  const auto see = [&](int windows, Duration queueing) {
    for (int i = 0; i < windows; ++i) {
      if (model.Read(With(0, queueing), Limit::kMeasured).long_queue) model.OnNotDrained();
    }
    return model.is_queue_foreign();
  };
  EXPECT_FALSE(see(4, milliseconds(40)));
  EXPECT_FALSE(see(4, milliseconds(30))) << "it shrank";
  EXPECT_TRUE(see(5, milliseconds(30)));
  EXPECT_TRUE(see(49, {}));
  EXPECT_FALSE(see(1, {}));
}

// A path, as windows of it come in while nothing limits it.
class BandwidthTest : public testing::Test {
 protected:
  void See(PathModel::Window window, const PathModel::Drive& drive = {}) {
    const auto limit = drive.limit > 0 ? Limit::kMeasured : Limit::kNone;
    model_.Estimate(window, model_.Read(window, limit), drive);
  }
  void See(double rate, int windows = 1, bool app_limited = false, Duration queueing = {}) {
    for (int i = 0; i < windows; ++i) {
      See({.given = rate,
           .delivered = rate,
           .queueing = queueing,
           .round_trip = milliseconds(160),
           .app_limited = app_limited});
    }
  }

  PathModel model_;
};

TEST_F(BandwidthTest, UnderALimitItFallsOnlyWhereThePathIsFullOrOverdriven) {
  See(50e6, 2);
  EXPECT_EQ(model_.bandwidth(), 50e6);
  PathModel::Window slow = kQuiet;
  slow.given = slow.delivered = 10e6;
  See(slow, {.limit = 50e6, .held = true});
  EXPECT_EQ(model_.bandwidth(), 50e6) << "a ring's links wait for each other";
  slow.given = 50e6;
  for (int i = 0; i < 30; ++i) See(slow, {.limit = 50e6, .held = true});
  EXPECT_TRUE(model_.FallsShort());
  EXPECT_LT(model_.bandwidth(), 11e6);
  See(kQuiet, {.limit = 48e6, .held = true, .filled = true});
  EXPECT_EQ(model_.bandwidth(), 48e6);
  See(kQuiet, {.limit = 47e6, .held = true, .filled = true, .only_drained = true});
  EXPECT_EQ(model_.bandwidth(), 48e6) << "the limit was lowered for a queue";
}

TEST_F(BandwidthTest, AGrowingCongestionWindowShowsALowerBound) {
  for (const double rate : {1e6, 3e6, 9e6, 27e6}) {
    See(rate);
    EXPECT_FALSE(model_.is_measured());
    EXPECT_EQ(model_.bandwidth(), rate);
  }
  See(30e6);
  EXPECT_TRUE(model_.is_measured());
}

TEST_F(BandwidthTest, LanesThatStallAtTheirStartAreNotAPathThatIsSlow) {
  See(1e6);
  for (const double rate : {0.2e6, 0.01e6, 0.5e6, 0.1e6}) See(rate);
  EXPECT_FALSE(model_.is_measured());
  See(50e6, 3);
  EXPECT_TRUE(model_.is_measured());
  EXPECT_NEAR(model_.bandwidth(), 50e6, 1e6);
}

TEST_F(BandwidthTest, BunchedAcknowledgementsMakeLittleOfADifference) {
  See(50e6, 5);
  for (int i = 0; i < 50; ++i) {
    See(60e6);
    See(40e6);
    EXPECT_NEAR(model_.bandwidth(), 50e6, 5e6);
  }
}

// As when several paths share an uplink: each gets a part of it.
TEST_F(BandwidthTest, AppLimitedWindowsRaiseItAndDoNotLowerIt) {
  See(50e6, 5);
  See(20e6, 20, true);
  EXPECT_EQ(model_.bandwidth(), 50e6);
  See(80e6, 20, true);
  EXPECT_NEAR(model_.bandwidth(), 80e6, 1e6);
  PathModel::Window part = kQuiet;
  part.delivered = 20e6;
  part.app_limited = true;
  for (int i = 0; i < 20; ++i) See(part, {.limit = 60e6, .held = true});
  EXPECT_NEAR(model_.bandwidth(), 80e6, 1e6) << "nor under a limit, though the path seems to fall short";
}

TEST_F(BandwidthTest, AnAppLimitedWindowWithAQueueOfThePathsOwnLowersIt) {
  See(50e6, 5);
  See(20e6, 20, true, milliseconds(30));
  EXPECT_NEAR(model_.bandwidth(), 20e6, 1e6);
}

TEST_F(BandwidthTest, AppLimitedWindowsAloneShowALowerBound) {
  See(20e6, 20, true);
  EXPECT_FALSE(model_.is_measured());
  EXPECT_EQ(model_.bandwidth(), 20e6);
}

TEST_F(BandwidthTest, WhatWasMeasuredLongAgoIsALowerBoundUntilAWindowSettles) {
  See(50e6, 20);
  model_.OnPaused();
  model_.Age();
  See(10e6);
  EXPECT_FALSE(model_.is_measured());
  EXPECT_EQ(model_.bandwidth(), 50e6);
  EXPECT_EQ(model_.seen(), 10e6);
  See(10e6);
  EXPECT_TRUE(model_.is_measured());
  EXPECT_EQ(model_.bandwidth(), 10e6);
  EXPECT_EQ(model_.seen(), 10e6);
}

TEST_F(BandwidthTest, SlowStartAfterAPauseDoesNotLowerIt) {
  See(50e6, 5);
  for (int i = 0; i < 10; ++i) {
    model_.OnPaused();
    for (const double rate : {3e6, 6e6, 12e6, 24e6, 48e6}) See(rate);
    EXPECT_EQ(model_.bandwidth(), 50e6);
  }
}

TEST_F(BandwidthTest, LanesThatStallAfterAPauseDoNotLowerIt) {
  See(50e6, 5);
  model_.OnPaused();
  for (const double rate : {1e6, 0.2e6, 0.01e6}) See(rate);
  EXPECT_EQ(model_.bandwidth(), 50e6);
}

}  // namespace
}  // namespace ringway::flow
