#include "daemon/flow/pacing.h"

#include <gtest/gtest.h>

#include <vector>

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

constexpr double kRate = 50e6;

class UplinkShareTest : public testing::Test {
 protected:
  static constexpr double kSegment = 64 << 10;

  UplinkShareTest() { pace_.SetRate(kRate); }

  static PathKey PairTo(std::uint64_t other) { return {.self = PeerId(1), .other = PeerId(other)}; }

  // Each pair in turn sends whatever it may. Returns bytes by pair.
  std::vector<double> SendFor(Duration length, std::size_t pairs) {
    std::vector<double> sent(pairs);
    for (const TimePoint end = now_ + length; now_ < end; now_ += milliseconds(1)) {
      ++turn_;
      for (std::size_t i = 0; i < pairs; ++i) {
        const std::size_t pair = (turn_ + i) % pairs;
        for (int n = 0; n < 10 && pace_.Wait(PairTo(pair), now_) == Duration(); ++n) {
          pace_.OnSent(PairTo(pair), kSegment, now_);
          sent[pair] += kSegment;
        }
      }
    }
    return sent;
  }

  UplinkShare pace_;
  std::size_t turn_ = 0;
  TimePoint now_{seconds(10)};
};

TEST_F(UplinkShareTest, WhoSendsAloneIsNotHeld) {
  EXPECT_EQ(SendFor(seconds(1), 1)[0], 1000 * 10 * kSegment) << "all that was offered";
}

// It holds in every second, within 2%, whether one pair sends or several, and whatever was measured.
TEST_F(UplinkShareTest, WhatTheOperatorAllowsHoldsForOneToo) {
  for (const std::size_t pairs : {1, 2, 5}) {
    for (const double measured : {0.0, 10 * kRate}) {
      UplinkShare pace(kRate);
      pace.SetRate(measured);
      std::vector<double> sent(5);
      for (int ms = 0; ms < 5000; ++ms) {
        const TimePoint now = now_ + milliseconds(ms);
        for (std::size_t pair = 0; pair < pairs; ++pair) {
          for (int n = 0; n < 1000 && pace.Wait(PairTo(pair + 2), now) == Duration(); ++n) {
            pace.OnSent(PairTo(pair + 2), kSegment, now);
            sent[static_cast<std::size_t>(ms / 1000)] += kSegment;
          }
        }
      }
      for (const double a_second : sent) EXPECT_NEAR(a_second, kRate, 0.02 * kRate) << pairs << " pairs";
    }
  }
}

TEST_F(UplinkShareTest, OperatorMayChangeTheLimitOrTakeItBack) {
  UplinkShare pace(kRate);
  const auto sent_from = [&](TimePoint begin) {
    double sent = 0;
    for (int ms = 0; ms < 1000; ++ms) {
      const TimePoint now = begin + milliseconds(ms);
      for (int n = 0; n < 10 && pace.Wait(PairTo(2), now) == Duration(); ++n) {
        pace.OnSent(PairTo(2), kSegment, now);
        sent += kSegment;
      }
    }
    return sent;
  };
  EXPECT_NEAR(sent_from(now_), kRate, 0.02 * kRate);
  pace.SetAllowed(kRate / 2);
  EXPECT_NEAR(sent_from(now_ + seconds(1)), kRate / 2, 0.02 * kRate);
  pace.SetAllowed(0);
  EXPECT_EQ(sent_from(now_ + seconds(2)), 1000 * 10 * kSegment) << "all that was offered";
}

TEST_F(UplinkShareTest, SmallSegmentsDoNotWaitForTheOperatorsLimitButCount) {
  UplinkShare pace(kRate);
  double large = 0;
  double small = 0;
  for (int ms = 0; ms < 2000; ++ms) {
    const TimePoint now = now_ + milliseconds(ms);
    pace.OnBypassed(5000);
    small += 5000;
    for (int n = 0; n < 1000 && pace.Wait(PairTo(2), now) == Duration(); ++n) {
      pace.OnSent(PairTo(2), kSegment, now);
      large += kSegment;
    }
  }
  EXPECT_NEAR(large + small, 2 * kRate, 0.03 * kRate);
}

TEST_F(UplinkShareTest, MeasuredRateBelowTheOperatorsLimitHolds) {
  UplinkShare pace(10 * kRate);
  pace.SetRate(kRate);
  double sent = 0;
  for (int ms = 0; ms < 1000; ++ms) {
    for (int n = 0; n < 1000 && pace.Wait(PairTo(2), now_ + milliseconds(ms)) == Duration(); ++n) {
      pace.OnSent(PairTo(2), kSegment, now_ + milliseconds(ms));
      sent += kSegment;
    }
  }
  EXPECT_NEAR(sent, kRate, 0.02 * kRate);
}

TEST_F(UplinkShareTest, TwoKeepTheRateTogetherAndShareIt) {
  const std::vector<double> sent = SendFor(seconds(10), 2);
  EXPECT_NEAR(sent[0], 5 * kRate, 0.05 * kRate);
  EXPECT_NEAR(sent[1], 5 * kRate, 0.05 * kRate);
}

// Two groups of a host that send all they may: in each millisecond the first one comes a little earlier.
struct TwoGroups {
  TwoGroups(UplinkShare* share, TimePoint* clock) : pace(*share), now(*clock), due{now, now} {}

  void Run(Duration length) {
    for (const TimePoint end = now + length; now < end; now += milliseconds(1)) {
      for (std::size_t i = 0; i < 2; ++i) {
        Duration wait{};
        for (int n = 0; n < 10 && now >= due[i] && (wait = pace.Wait(paths[i], now)) == Duration(); ++n) {
          pace.OnSent(paths[i], kSegment, now);
          sent[i] += kSegment;
        }
        if (wait > Duration()) due[i] = now + wait;
      }
    }
  }

  UplinkShare& pace;
  TimePoint& now;
  TimePoint due[2];
  double sent[2] = {0, 0};
  const PathKey paths[2] = {{.self = PeerId(1), .other = PeerId(9)}, {.self = PeerId(2), .other = PeerId(8)}};
};

TEST_F(UplinkShareTest, GroupsShareAlthoughOneAlwaysComesFirst) {
  TwoGroups groups(&pace_, &now_);
  groups.Run(seconds(10));
  EXPECT_NEAR(groups.sent[0], 5 * kRate, 0.1 * kRate);
  EXPECT_NEAR(groups.sent[1], 5 * kRate, 0.1 * kRate);
  groups.due[0] = now_ + seconds(10);  // it is idle
  groups.Run(seconds(5));
  groups.due[0] = now_;
  groups.sent[0] = groups.sent[1] = 0;
  groups.Run(seconds(10));
  EXPECT_NEAR(groups.sent[0], 5 * kRate, 0.1 * kRate) << "what it did not use then is not made up for";
}

TEST_F(UplinkShareTest, BackgroundGroupHasItsShareBesideAnotherAndAllAlone) {
  TwoGroups groups(&pace_, &now_);
  pace_.SetBackgroundShare(0.25);
  pace_.SetBackground(PeerId(1));
  groups.Run(seconds(10));
  EXPECT_NEAR(groups.sent[0], 2.5 * kRate, 0.1 * kRate);
  EXPECT_NEAR(groups.sent[1], 7.5 * kRate, 0.1 * kRate);
  groups.due[1] = now_ + seconds(10);  // the other is idle
  groups.sent[0] = 0;
  groups.Run(seconds(5));
  EXPECT_GT(groups.sent[0], 5 * kRate);
  pace_.Forget(PeerId(1));
  groups.due[0] = groups.due[1] = now_;
  groups.sent[0] = groups.sent[1] = 0;
  groups.Run(seconds(10));
  EXPECT_NEAR(groups.sent[0], 5 * kRate, 0.1 * kRate) << "it is background no more";
}

TEST_F(UplinkShareTest, WhoBeginsIsHeldAtOnceIfAnotherSends) {
  (void)SendFor(seconds(1), 1);
  const std::vector<double> sent = SendFor(milliseconds(20), 2);
  EXPECT_LT(sent[0] + sent[1], 0.02 * kRate + 16 * kSegment);
}

TEST_F(UplinkShareTest, WhoseOthersFellSilentIsNotHeld) {
  (void)SendFor(seconds(1), 2);
  now_ += UplinkShare::kSilent + milliseconds(1);
  (void)SendFor(milliseconds(1), 1);
  EXPECT_EQ(SendFor(seconds(1), 1)[0], 1000 * 10 * kSegment);
}

TEST_F(UplinkShareTest, WhatGoesAsideCountsButItsSenderDoesNot) {
  pace_.OnBypassed(1e9);
  EXPECT_EQ(pace_.Wait(PairTo(0), now_), Duration()) << "nobody else sends";
  (void)SendFor(milliseconds(100), 2);
  pace_.OnBypassed(1e9);
  EXPECT_GT(pace_.Wait(PairTo(0), now_), milliseconds(50));
}

TEST_F(UplinkShareTest, WithoutARateNobodyIsHeld) {
  pace_.SetRate(0);
  EXPECT_EQ(SendFor(seconds(1), 2)[1], 1000 * 10 * kSegment);
}

TEST_F(UplinkShareTest, AnUplinkThatTakesLongForASegmentHoldsThemToo) {
  pace_.SetRate(1e6);  // 65 ms a segment
  (void)SendFor(seconds(1), 3);
  const std::vector<double> sent = SendFor(seconds(20), 3);
  EXPECT_NEAR(sent[0] + sent[1] + sent[2], 20e6, 1e6);
}

}  // namespace
}  // namespace ringway::flow
