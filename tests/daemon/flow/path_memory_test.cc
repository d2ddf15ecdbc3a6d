#include "daemon/flow/path_memory.h"

#include <gtest/gtest.h>

#include <string>

namespace ringway::flow {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

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
