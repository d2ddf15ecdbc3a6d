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

TEST(PathModelTest, BandwidthFallsOnlyWhereThePathIsFullOrOverdriven) {
  PathModel model;
  model.Estimate(kQuiet, {});
  EXPECT_EQ(model.bandwidth(), 50e6);
  PathModel::Window slow = kQuiet;
  slow.given = slow.delivered = 10e6;
  model.Estimate(slow, {.limit = 50e6, .held = true});
  EXPECT_EQ(model.bandwidth(), 50e6) << "a ring's links wait for each other";
  slow.given = 50e6;
  for (int i = 0; i < 30; ++i) model.Estimate(slow, {.limit = 50e6, .held = true});
  EXPECT_TRUE(model.FallsShort());
  EXPECT_LT(model.bandwidth(), 11e6);
  model.Estimate(kQuiet, {.limit = 48e6, .held = true, .filled = true});
  EXPECT_EQ(model.bandwidth(), 48e6);
  model.Estimate(kQuiet, {.limit = 47e6, .held = true, .filled = true, .only_drained = true});
  EXPECT_EQ(model.bandwidth(), 48e6) << "the limit was lowered for a queue";
}

}  // namespace
}  // namespace ringway::flow
