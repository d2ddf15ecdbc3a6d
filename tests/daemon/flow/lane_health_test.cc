#include "daemon/flow/lane_health.h"

#include <gtest/gtest.h>

#include <array>

namespace ringway::flow {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr LaneAllowance kFine{.now = 40'000, .fresh = 14'000};
constexpr LaneAllowance kWorn{.now = 2'000, .fresh = 14'000};

class LaneHealthTest : public testing::Test {
 protected:
  std::optional<std::size_t> Judge(LaneAllowance first, LaneAllowance second) {
    const std::array lanes = {first, second};
    return wear_.Judge(lanes, now_);
  }
  // Returns how often the second lane is replaced in `time`, if every fresh one is unhealthy at once.
  int Replaced(Duration time) {
    int count = 0;
    for (const TimePoint end = now_ + time; now_ < end; now_ += milliseconds(50)) {
      count += Judge(kFine, kWorn).has_value();
    }
    return count;
  }

  LaneHealth wear_;
  TimePoint now_{seconds(1000)};
};

TEST_F(LaneHealthTest, GivesTheLaneThatMaySendLessThanHalfOfAFreshOne) {
  EXPECT_EQ(Judge(kFine, kFine), std::nullopt);
  EXPECT_EQ(Judge(kFine, {.now = 7'000, .fresh = 14'000}), std::nullopt);
  EXPECT_EQ(Judge(kFine, {.now = 6'999, .fresh = 14'000}), std::optional<std::size_t>(1));
}

TEST_F(LaneHealthTest, WaitsUntilNothingIsOnItsWay) {
  LaneAllowance busy = kWorn;
  busy.in_use = true;
  EXPECT_EQ(Judge(busy, kFine), std::nullopt);
  EXPECT_EQ(Judge(kWorn, kFine), std::optional<std::size_t>(0));
}

TEST_F(LaneHealthTest, WhatIsNotKnownIsNotWorn) {
  EXPECT_EQ(Judge({.now = 0, .fresh = 14'000}, {.now = 100, .fresh = 0}), std::nullopt);
}

TEST_F(LaneHealthTest, ReplacementsOfOneLaneDoNotHoldUpAnothers) {
  EXPECT_EQ(Judge(kWorn, kWorn), std::optional<std::size_t>(0));
  EXPECT_EQ(Judge(kWorn, kWorn), std::optional<std::size_t>(1));
  EXPECT_EQ(Judge(kWorn, kWorn), std::nullopt);
}

TEST_F(LaneHealthTest, APathThatIsSlowIsTriedLessAndLess) {
  EXPECT_EQ(Replaced(seconds(211)), 4) << "after 0, 30, 90 and 210 s";
  (void)Replaced(seconds(3600));
  EXPECT_LE(Replaced(seconds(3600)), 12);
}

TEST_F(LaneHealthTest, OneThatLastedIsReplacedSoonAgain) {
  EXPECT_EQ(Replaced(seconds(91)), 3);
  now_ += seconds(600);
  EXPECT_EQ(Replaced(seconds(31)), 2);
}

}  // namespace
}  // namespace ringway::flow
