#include "daemon/flow/lane_stalls.h"

#include <gtest/gtest.h>

#include <array>

namespace ringway::flow {
namespace {

using std::chrono::milliseconds;

// Two lanes, ticks of 100 ms, 50 ms round trip.
class LaneStallsTest : public testing::Test {
 protected:
  // Returns the first lane reported as stalled meanwhile.
  std::optional<std::size_t> Run(double first, double second, int ticks) {
    const std::array rates = {first, second};
    std::optional<std::size_t> stalled;
    for (int tick = 0; tick < ticks; ++tick) {
      now_ += milliseconds(100);
      for (std::size_t i = 0; i < rates.size(); ++i) {
        lanes_[i].delivered_bytes += static_cast<std::uint64_t>(rates[i] / 10);
      }
      balance_.Add(lanes_, now_);
      const auto found = balance_.TakeStalled();
      if (!stalled) stalled = found;
    }
    return stalled;
  }

  LaneSample Busy() const { return {.busy = true, .round_trip = milliseconds(50)}; }
  std::array<LaneSample, 2> lanes_ = {Busy(), Busy()};
  LaneStalls balance_;
  TimePoint now_{std::chrono::seconds(10)};
};

TEST_F(LaneStallsTest, ALaneThatMovesNextToNothingIsGivenOnce) {
  EXPECT_EQ(Run(30e6, 30e6, 30), std::nullopt);
  EXPECT_EQ(Run(30e6, 50e3, 22), std::optional<std::size_t>(1));
  EXPECT_EQ(balance_.TakeStalled(), std::nullopt);
}

TEST_F(LaneStallsTest, SlowerIsNotStalledAndNeitherIsIdle) {
  EXPECT_EQ(Run(30e6, 3e6, 100), std::nullopt);
  lanes_[1].busy = false;
  EXPECT_EQ(Run(30e6, 0, 100), std::nullopt);
}

TEST_F(LaneStallsTest, AllMayHaveStalled) {
  Run(30e6, 30e6, 30);
  EXPECT_NE(Run(50e3, 50e3, 22), std::nullopt);
}

TEST_F(LaneStallsTest, APathThatHasBecomeSlowIsBelieved) {
  Run(32e6, 32e6, 30);
  int replaced = 0;
  for (int second = 0; second < 120; ++second) {
    if (const auto lane = Run(100e3, 100e3, 10)) {
      ++replaced;
      lanes_[*lane].delivered_bytes = 0;
    }
  }
  EXPECT_GT(replaced, 0);
  EXPECT_LE(replaced, 2) << "32e6 / 2^2 / 256 is less than it moves";
}

TEST_F(LaneStallsTest, AReceiverThatDoesNotReadIsNotTheLanesFault) {
  Run(30e6, 30e6, 30);
  for (int tick = 0; tick < 40; ++tick) {
    lanes_[1].receiver_limited += milliseconds(90);
    EXPECT_EQ(Run(30e6, 0, 1), std::nullopt);
  }
}

TEST_F(LaneStallsTest, TimeThatNobodyLookedAtDoesNotCount) {
  Run(30e6, 30e6, 35);
  now_ += std::chrono::minutes(1);
  EXPECT_EQ(Run(30e6, 30e6, 30), std::nullopt);
}

TEST_F(LaneStallsTest, LanesThatAllBecomeSlowerShareThePath) {
  Run(30e6, 30e6, 30);
  EXPECT_EQ(Run(1e6, 1e6, 100), std::nullopt);
}

TEST_F(LaneStallsTest, ALaneThatAllOthersWaitForIsGivenSooner) {
  Run(30e6, 30e6, 30);
  lanes_[0].busy = false;
  EXPECT_EQ(Run(0, 1e6, 22), std::optional<std::size_t>(1)) << "two busy lanes at this rate would share a slow path";
}

TEST_F(LaneStallsTest, LongRoundTripsAreGivenTime) {
  for (LaneSample& lane : lanes_) lane.round_trip = milliseconds(400);
  Run(30e6, 30e6, 60);
  EXPECT_EQ(Run(30e6, 0, 30), std::nullopt);
  EXPECT_EQ(Run(30e6, 0, 60), std::optional<std::size_t>(1));
}

}  // namespace
}  // namespace ringway::flow
