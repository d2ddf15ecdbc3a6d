#include "daemon/flow/token_bucket.h"

#include <gtest/gtest.h>

namespace ringway::flow {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class TokenBucketTest : public testing::Test {
 protected:
  static constexpr double kSegment = 256 << 10;

  // Sends all that may go for `length`; asks again after the wait that the bucket returned, or `late` later.
  double SendFor(Duration length, Duration late = {}) {
    double sent = 0;
    const TimePoint end = now_ + length;
    while (now_ < end) {
      const Duration wait = Ask();
      if (wait > Duration()) {
        now_ += wait + late;
        continue;
      }
      pace_.OnSent(kSegment);
      sent += kSegment;
    }
    return sent;
  }

  Duration Ask() {
    const Duration wait = pace_.Wait(now_);
    meter_.Add(wait, now_);
    return wait;
  }

  TokenBucket pace_;
  WaitMeter meter_;
  TimePoint now_{seconds(10)};
};

TEST_F(TokenBucketTest, WithoutARateNothingWaits) {
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(Ask(), Duration());
    pace_.OnSent(kSegment);
  }
  EXPECT_FALSE(meter_.TakeHeld(now_ + seconds(1)));
}

TEST_F(TokenBucketTest, TheRateIsKept) {
  for (const double rate : {100e3, 5e6, 50e6, 2e9}) {
    pace_ = TokenBucket();
    pace_.SetRate(rate);
    SendFor(seconds(10));
    EXPECT_NEAR(SendFor(seconds(100)), 100 * rate, 0.01 * 100 * rate + kSegment) << rate;
  }
}

TEST_F(TokenBucketTest, WhatIsResentIsMadeRoomForButHoldsNobodyForLong) {
  pace_.SetRate(10'000);
  (void)pace_.Wait(now_);
  pace_.OnSent(100'000);  // all that there is
  pace_.OnResent(500);
  EXPECT_EQ(pace_.Wait(now_), milliseconds(50));
  for (int i = 0; i < 1000; ++i) pace_.OnResent(1e6);
  EXPECT_EQ(pace_.Wait(now_), milliseconds(100));
}

TEST_F(TokenBucketTest, ATimerThatIsLateIsMadeUpFor) {
  pace_.SetRate(50e6);
  EXPECT_NEAR(SendFor(seconds(10), milliseconds(3)), 500e6, 5e6);
}

TEST_F(TokenBucketTest, APauseIsNotMadeUpFor) {
  pace_.SetRate(50e6);
  SendFor(seconds(1));
  now_ += seconds(10);
  int at_once = 0;
  while (pace_.Wait(now_) == Duration()) {
    pace_.OnSent(kSegment);
    ++at_once;
  }
  EXPECT_LE(at_once, 2);
}

TEST_F(TokenBucketTest, WhatWentBeforeTheRateWasSetIsForgotten) {
  SendFor(Duration());
  for (int i = 0; i < 1000; ++i) pace_.OnSent(kSegment);
  pace_.SetRate(50e6);
  EXPECT_EQ(pace_.Wait(now_), Duration());
}

TEST_F(TokenBucketTest, WhatGoesWithoutWaitingHoldsUpTheRestForATenthOfASecondAtMost) {
  pace_.SetRate(50e6);
  for (int i = 0; i < 10'000; ++i) pace_.OnSent(64 << 10);
  EXPECT_EQ(pace_.Wait(now_), Duration()) << "what was earned before the first call";
  for (int i = 0; i < 10'000; ++i) pace_.OnSent(64 << 10);
  EXPECT_LE(pace_.Wait(now_), milliseconds(100));
  EXPECT_GT(pace_.Wait(now_), milliseconds(90));
}

TEST_F(TokenBucketTest, HeldIsWhoWaitedForMostOfTheTime) {
  pace_.SetRate(50e6);
  SendFor(milliseconds(100));
  (void)meter_.TakeHeld(now_);
  SendFor(milliseconds(100));
  EXPECT_TRUE(meter_.TakeHeld(now_));
  // Lanes that take less than they may: there is always credit.
  for (int i = 0; i < 10; ++i) {
    now_ += milliseconds(10);
    EXPECT_EQ(Ask(), Duration());
    pace_.OnSent(kSegment);
  }
  EXPECT_FALSE(meter_.TakeHeld(now_));
  SendFor(milliseconds(30));
  now_ += milliseconds(100);
  EXPECT_FALSE(meter_.TakeHeld(now_)) << "nobody came back: there was nothing more";
}

}  // namespace
}  // namespace ringway::flow
