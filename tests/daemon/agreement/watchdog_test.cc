#include "daemon/agreement/watchdog.h"

#include <gtest/gtest.h>

#include <vector>

namespace ringway::agreement {
namespace {

using std::chrono::seconds;

const TimePoint kStart = TimePoint() + std::chrono::hours(5);
const OpName kOp{ChannelId(2), 7};
const std::vector<PeerId> kMembers = {PeerId(1), PeerId(2), PeerId(3)};

class WatchdogTest : public testing::Test {
 protected:
  WatchdogTest() {
    watchdog_.OnView(kStart);
    Hear(2, seconds(10), 8);
    Hear(3, seconds(10), 20);
  }

  void Hear(std::uint64_t from, Duration still, std::uint64_t next) {
    watchdog_.Heard(PeerId(from), {.still = still, .patience = {}, .next = {{ChannelId(2), next}}});
  }
  bool StuckAfter(Duration time) { return watchdog_.IsStuck(kOp, kMembers, PeerId(1), kStart + time); }

  Watchdog watchdog_{seconds(10)};
};

TEST_F(WatchdogTest, BarksWhenAllHaveSubmittedAndNothingMoves) {
  EXPECT_FALSE(StuckAfter(seconds(10) - Duration(1)));
  EXPECT_TRUE(StuckAfter(seconds(10)));
}

TEST_F(WatchdogTest, WaitsForWhoHasNotSubmitted) {
  Hear(3, seconds(10), 7);
  EXPECT_FALSE(StuckAfter(seconds(100)));
  Hear(3, seconds(10), 8);
  EXPECT_TRUE(StuckAfter(seconds(100)));
}

TEST_F(WatchdogTest, WaitsForWhoNeverSubmittedOnTheChannel) {
  watchdog_.Heard(PeerId(3), {.still = seconds(10), .patience = {}, .next = {{ChannelId(1), 20}}});
  EXPECT_FALSE(StuckAfter(seconds(100)));
}

TEST_F(WatchdogTest, WaitsWhereAnythingMoves) {
  Hear(2, seconds(4), 8);
  EXPECT_FALSE(StuckAfter(seconds(100))) << "there";
  Hear(2, seconds(5), 8);
  EXPECT_TRUE(StuckAfter(seconds(100)));
  watchdog_.Moved(kStart + seconds(95));
  EXPECT_FALSE(StuckAfter(seconds(100))) << "here";
}

// Peers that are not in the view may wait for the master's word.
TEST_F(WatchdogTest, HearsEverybodyAnewInAView) {
  watchdog_.OnView(kStart);
  Hear(2, seconds(10), 8);
  EXPECT_FALSE(StuckAfter(seconds(100)));
  Hear(3, seconds(10), 8);
  EXPECT_TRUE(StuckAfter(seconds(100)));
}

TEST_F(WatchdogTest, BarksLaterEachTimeUntilAnOperationAsLargeSucceeds) {
  Hear(2, seconds(1000), 8);
  Hear(3, seconds(1000), 8);
  watchdog_.Fire(5000, kStart + seconds(10));
  EXPECT_FALSE(StuckAfter(seconds(29)));
  EXPECT_TRUE(StuckAfter(seconds(30)));
  watchdog_.Reset(4999);
  EXPECT_FALSE(StuckAfter(seconds(29))) << "a small one proves nothing";
  watchdog_.Reset(5000);
  EXPECT_TRUE(StuckAfter(seconds(20)));
  for (int i = 0; i < 20; ++i) watchdog_.Fire(1, kStart);
  Hear(2, 2 * Watchdog::kPatienceMax, 8);
  Hear(3, 2 * Watchdog::kPatienceMax, 8);
  EXPECT_TRUE(StuckAfter(Watchdog::kPatienceMax));
}

TEST_F(WatchdogTest, IsAsPatientAsTheMostPatientRank) {
  watchdog_.Heard(PeerId(2), {.still = seconds(50), .patience = seconds(40), .next = {{ChannelId(2), 8}}});
  Hear(3, seconds(50), 8);
  EXPECT_FALSE(StuckAfter(seconds(39)));
  EXPECT_TRUE(StuckAfter(seconds(40)));
}

}  // namespace
}  // namespace ringway::agreement
