#include "daemon/core/tail.h"

#include <gtest/gtest.h>

namespace ringway::core {
namespace {

TEST(TailTest, ALaneThatSendsOnIsNotLookedAt) {
  Tail tail;
  EXPECT_FALSE(tail.pending());
  EXPECT_FALSE(tail.TakeTurn());
  for (int i = 0; i < 5; ++i) {
    tail.OnSegment();
    EXPECT_TRUE(tail.pending());
    EXPECT_FALSE(tail.TakeTurn());
  }
  EXPECT_TRUE(tail.TakeTurn());
}

TEST(TailTest, ThreeFramesFollowTheLastSegmentOnceItHasLeft) {
  Tail tail;
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

TEST(TailTest, WhatIsAcknowledgedNeedsNone) {
  Tail tail;
  tail.OnSegment();
  (void)tail.TakeTurn();
  ASSERT_TRUE(tail.TakeTurn());
  EXPECT_FALSE(tail.OnLooked(false, false));
  EXPECT_FALSE(tail.pending());
  tail.OnSegment();
  EXPECT_TRUE(tail.pending()) << "the next operation";
}

}  // namespace
}  // namespace ringway::core
