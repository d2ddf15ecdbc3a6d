#include "daemon/flow/tail_probe.h"

#include <gtest/gtest.h>

namespace ringway::flow {
namespace {

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

}  // namespace
}  // namespace ringway::flow
