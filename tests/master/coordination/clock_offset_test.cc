#include "master/coordination/clock_offset.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>
#include <tuple>
#include <vector>

namespace ringway {
namespace {

using std::chrono::microseconds;
using std::chrono::seconds;

constexpr TimePoint kStart{seconds(1000)};

// A daemon whose clock is `ahead` of the master's answers after `held`; the way there takes `there`, back `back`.
struct Exchange {
  Duration ahead{}, there{}, held{}, back{};

  // Adds it to `offset`; `sent`: when the master sent its heartbeat. Returns when the daemon's arrives.
  TimePoint AddTo(ClockOffset& offset, TimePoint sent) const {
    control::ClockSample sample;
    sample.set_echo_us(sent.time_since_epoch().count());
    sample.set_held_us(held.count());
    sample.set_sent_us((sent + there + held + ahead).time_since_epoch().count());
    const TimePoint now = sent + there + held + back;
    offset.Add(sample, now);
    return now;
  }
};

TEST(ClockOffsetTest, TheTrueDifferenceIsWithinTheError) {
  for (const Duration ahead : {Duration(seconds(-500)), Duration(0), Duration(seconds(5000))}) {
    ClockOffset offset;
    const Exchange uneven{.ahead = ahead, .there = microseconds(40'000), .held = seconds(1), .back = microseconds(10)};
    const auto estimate = offset.At(uneven.AddTo(offset, kStart));
    ASSERT_TRUE(estimate);
    EXPECT_LE(std::abs((estimate->ahead - ahead).count()), estimate->error.count());
    EXPECT_LT(estimate->error, microseconds(20'600));
  }
}

TEST(ClockOffsetTest, TheShortestRoundTripCountsUntilDriftMakesItWorse) {
  ClockOffset offset;
  const Exchange good{
      .ahead = seconds(3), .there = microseconds(50), .held = microseconds(0), .back = microseconds(50)};
  const Exchange bad{
      .ahead = seconds(3), .there = microseconds(900), .held = microseconds(0), .back = microseconds(100)};
  (void)good.AddTo(offset, kStart);
  EXPECT_EQ(offset.At(bad.AddTo(offset, kStart + microseconds(100'000)))->ahead, Duration(seconds(3)));
  EXPECT_NE(offset.At(bad.AddTo(offset, kStart + seconds(60)))->ahead, Duration(seconds(3)));
}

TEST(ClockOffsetTest, AnEstimateThatANewerSampleContradictsIsDropped) {
  ClockOffset offset;
  const Exchange good{
      .ahead = seconds(3), .there = microseconds(50), .held = microseconds(0), .back = microseconds(50)};
  const Exchange later{
      .ahead = seconds(4), .there = microseconds(500), .held = microseconds(0), .back = microseconds(500)};
  (void)good.AddTo(offset, kStart);
  EXPECT_EQ(offset.At(later.AddTo(offset, kStart + microseconds(1000)))->ahead, Duration(seconds(4)));
}

// NTP slews by up to 500 ppm.
TEST(ClockOffsetTest, TheErrorCoversASlewedClock) {
  ClockOffset offset;
  const Exchange before{
      .ahead = seconds(3), .there = microseconds(5), .held = microseconds(0), .back = microseconds(5)};
  (void)before.AddTo(offset, kStart);
  const auto estimate = offset.At(kStart + seconds(10));
  EXPECT_LE(Duration(seconds(3)) + microseconds(5000) - estimate->ahead, estimate->error);
}

TEST(ClockOffsetTest, WhatCannotBeIsIgnored) {
  ClockOffset offset;
  control::ClockSample sample;
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  const std::int64_t now = kStart.time_since_epoch().count();
  for (const auto& [sent, echo, held] :
       std::vector<std::tuple<std::int64_t, std::int64_t, std::int64_t>>{{1, 0, 0},
                                                                         {0, now, 0},
                                                                         {kMax, now, 0},
                                                                         {1, kMax, 0},
                                                                         {1, -kMax, 0},
                                                                         {1, now - 5, 6},
                                                                         {1, now + 1, 0},
                                                                         {1, now, kMax},
                                                                         {1, now, -1},
                                                                         {1, 1, 0}}) {
    sample.set_sent_us(sent);
    sample.set_echo_us(echo);
    sample.set_held_us(held);
    offset.Add(sample, kStart);
    EXPECT_FALSE(offset.At(kStart)) << sent << " " << echo << " " << held;
  }
}

}  // namespace
}  // namespace ringway
