#include "daemon/core/lane_count.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace ringway::core {
namespace {

using std::chrono::milliseconds;

// A path that takes `path` bytes a second, by lanes that take `lane` each; ticks of 50 ms, round trips of 100 ms.
class LaneCountTest : public testing::Test {
 protected:
  void Run(double lane, double path, int seconds) {
    for (int tick = 0; tick < seconds * 20; ++tick) Tick(lane, path);
  }

  void Tick(double lane, double path) {
    now_ += milliseconds(50);
    const double rate = std::min(path, lane * static_cast<double>(count_.used()));
    sample_.delivered_bytes += static_cast<std::uint64_t>(rate / 20);
    sample_.resent_bytes += static_cast<std::uint64_t>(resent_ * rate / 20);
    const std::size_t before = count_.used();
    count_.Add(sample_, now_);
    changes_ += count_.used() != before;
  }

  LaneCount::Sample sample_{.backlogged = true, .lanes = 128, .round_trip = milliseconds(100)};
  LaneCount count_;
  double resent_ = 0;  // of what arrives
  int changes_ = 0;
  TimePoint now_{std::chrono::seconds(10)};
};

TEST_F(LaneCountTest, LanesThatAreBoundByTheirWindowsGetMore) {
  Run(10e6, 100e6, 30);
  EXPECT_GE(count_.used(), 10u);
  EXPECT_LE(count_.used(), 15u);
}

TEST_F(LaneCountTest, APathThatIsFilledGetsNoMore) {
  Run(60e6, 100e6, 20);
  EXPECT_EQ(count_.used(), LaneCount::kFirst);
}

TEST_F(LaneCountTest, TrialsThatBringNothingBecomeRare) {
  Run(60e6, 100e6, 600);
  EXPECT_EQ(count_.used(), LaneCount::kFirst);
  EXPECT_GE(changes_, 4);
  EXPECT_LE(changes_, 14) << "10 s, 20 s, 40 s ..: two changes each";
}

TEST_F(LaneCountTest, PacedLanesAreManyAndGetMoreWhereTheyFallShort) {
  sample_.paced = true;
  Run(60e6, 100e6, 60);
  EXPECT_EQ(count_.used(), LaneCount::kPaced);
  Run(10e6, 100e6, 60);
  EXPECT_GE(count_.used(), 10u);
  sample_.paced = false;
  count_ = LaneCount();
  while (count_.used() == LaneCount::kFirst) Tick(10e6, 100e6);
  sample_.paced = true;
  Tick(10e6, 100e6);
  EXPECT_EQ(count_.used(), LaneCount::kPaced) << "in the middle of a trial";
  sample_.paced = false;
  Tick(10e6, 100e6);
  EXPECT_EQ(count_.used(), LaneCount::kFirst);
}

TEST_F(LaneCountTest, WhoIsNotBackloggedIsNotJudged) {
  sample_.backlogged = false;
  Run(10e6, 100e6, 60);
  EXPECT_EQ(changes_, 0);
}

TEST_F(LaneCountTest, ARateThatStillGrowsIsWaitedFor) {
  for (double lane = 1e6; lane < 400e6; lane *= 1.02) Tick(lane, 1e12);
  EXPECT_EQ(changes_, 0);
}

TEST_F(LaneCountTest, ReplacedLanesDisturbNothing) {
  Run(60e6, 100e6, 2);
  sample_.delivered_bytes = 0;
  Run(60e6, 100e6, 5);
  EXPECT_LE(count_.used(), LaneCount::kFirst);
  Run(10e6, 100e6, 10);
  EXPECT_GT(count_.used(), LaneCount::kFirst) << "it is judged again at once";
}

TEST_F(LaneCountTest, NoMoreAreTriedThanThereAre) {
  sample_.lanes = 8;
  Run(1e6, 1e12, 600);
  EXPECT_EQ(count_.used(), 8u);
}

TEST_F(LaneCountTest, LanesThatOverdriveBecomeFewerUntilThatCosts) {
  Run(10e6, 100e6, 60);
  const std::size_t many = count_.used();
  ASSERT_GE(many, 9u);
  resent_ = 0.1;
  Run(30e6, 100e6, 30);
  EXPECT_EQ(count_.used(), LaneCount::kFirst) << "four of them fill the path";
  resent_ = 0;
  Run(10e6, 100e6, 60);
  ASSERT_GE(count_.used(), 9u);
  resent_ = 0.1;
  Run(10e6, 100e6, 60);
  EXPECT_GE(count_.used(), 9u) << "each is bound by what it loses";
  Run(5e6, 100e6, 120);
  EXPECT_GE(count_.used(), 15u);
}

TEST_F(LaneCountTest, FewLossesAreNoReason) {
  Run(10e6, 100e6, 60);
  resent_ = 0.02;
  Run(30e6, 100e6, 60);
  EXPECT_GE(count_.used(), 9u);
}

TEST_F(LaneCountTest, AfterAMinuteOfRestThereAreFew) {
  Run(10e6, 100e6, 60);
  ASSERT_GT(count_.used(), LaneCount::kFirst);
  now_ += std::chrono::seconds(59);
  Tick(10e6, 100e6);
  EXPECT_GT(count_.used(), LaneCount::kFirst);
  now_ += std::chrono::seconds(60);
  Tick(10e6, 100e6);
  EXPECT_EQ(count_.used(), LaneCount::kFirst);
}

TEST_F(LaneCountTest, ATrialThatTrafficLeavesIsNone) {
  while (count_.used() == LaneCount::kFirst) Tick(10e6, 100e6);
  now_ += std::chrono::seconds(5);
  Tick(10e6, 100e6);
  EXPECT_EQ(count_.used(), LaneCount::kFirst);
  Run(10e6, 100e6, 10);
  EXPECT_GT(count_.used(), LaneCount::kFirst) << "and may come again";
}

TEST_F(LaneCountTest, ThereIsAnEnd) {
  Run(1e6, 1e12, 600);
  EXPECT_EQ(count_.used(), 128u);
}

}  // namespace
}  // namespace ringway::core
