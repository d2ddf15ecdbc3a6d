#include "daemon/flow/lane_scaler.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace ringway::flow {
namespace {

using std::chrono::milliseconds;

// A path that takes `path` bytes a second, by lanes that take `lane` each; ticks of 50 ms, round trips of 100 ms.
class LaneScalerTest : public testing::Test {
 protected:
  void Run(double lane, double path, int run_s) {
    for (int tick = 0; tick < run_s * 20; ++tick) Tick(lane, path);
  }

  void Tick(double lane, double path) {
    now_ += milliseconds(50);
    const std::size_t wanted = std::clamp(count_.wanted(now_), kUpFirst, up_max_);
    if (wanted <= up_) opening_since_ = now_;
    if (wanted < up_ || now_ - opening_since_ >= opening_) up_ = wanted;
    const double rate = std::min(path, lane * static_cast<double>(std::min(count_.used(), up_)));
    tick_.delivered = rate / 20;
    tick_.resent = resent_ * rate / 20;
    const std::size_t before = count_.used();
    count_.Add(tick_, milliseconds(100), demand_, up_, now_);
    changes_ += count_.used() != before;
  }

  static constexpr std::size_t kUpFirst = 8;
  LaneScaler::Demand demand_{.backlogged = true};
  Traffic tick_;
  std::size_t up_ = kUpFirst;
  LaneScaler count_;
  std::size_t up_max_ = 200;
  Duration opening_{};
  TimePoint opening_since_{};
  double resent_ = 0;  // of what arrives
  int changes_ = 0;
  TimePoint now_{std::chrono::seconds(10)};
};

TEST_F(LaneScalerTest, LanesThatAreBoundByTheirWindowsGetMore) {
  Run(10e6, 100e6, 30);
  EXPECT_GE(count_.used(), 10u);
  EXPECT_LE(count_.used(), 18u);
}

// Others' connections fill the queue: each lane more takes from them.
TEST_F(LaneScalerTest, LanesInAQueueGetNoMoreUnlessTheyArePaced) {
  tick_.queueing = milliseconds(40);
  Run(10e6, 100e6, 60);
  EXPECT_EQ(count_.used(), LaneScaler::kFirst);
  demand_.pace = 1;
  Run(10e6, 100e6, 60);
  EXPECT_GT(count_.used(), LaneScaler::kPaced);
}

TEST_F(LaneScalerTest, APathThatIsFilledGetsNoMore) {
  Run(60e6, 100e6, 20);
  EXPECT_EQ(count_.used(), LaneScaler::kFirst);
}

TEST_F(LaneScalerTest, TrialsThatBringNothingBecomeRare) {
  Run(60e6, 100e6, 600);
  EXPECT_EQ(count_.used(), LaneScaler::kFirst);
  EXPECT_GE(changes_, 4);
  EXPECT_LE(changes_, 14) << "10 s, 20 s, 40 s ..: two changes each";
}

TEST_F(LaneScalerTest, PacedLanesAreManyAndGetMoreWhereTheyFallShort) {
  demand_.pace = 1;
  Run(60e6, 100e6, 60);
  EXPECT_EQ(count_.used(), LaneScaler::kPaced);
  Run(10e6, 100e6, 60);
  EXPECT_GE(count_.used(), 10u);
  demand_.pace = 0;
  count_ = LaneScaler();
  while (count_.used() == LaneScaler::kFirst) Tick(10e6, 100e6);
  demand_.pace = 1;
  Tick(10e6, 100e6);
  EXPECT_EQ(count_.used(), LaneScaler::kPaced) << "in the middle of a trial";
  demand_.pace = 0;
  Tick(10e6, 100e6);
  EXPECT_EQ(count_.used(), LaneScaler::kFirst);
}

TEST_F(LaneScalerTest, WindowsThatWereHeldForTheMostPartSayNothingOfTheLanes) {
  demand_.pace = 1;
  demand_.held = true;
  Run(10e6, 100e6, 60);
  EXPECT_EQ(count_.used(), LaneScaler::kPaced);
  for (int tick = 0; tick < 1200; ++tick) {
    demand_.held = tick % 4 == 0;
    Tick(10e6, 100e6);
  }
  EXPECT_GE(count_.used(), 10u) << "a tick now and then";
}

TEST_F(LaneScalerTest, HeldPairKeepsItsLanes) {
  resent_ = 0.02;
  Run(1e6, 60e6, 60);
  const std::size_t used = count_.used();
  ASSERT_GE(used, 50u);
  demand_ = {.pace = 1, .held = true, .backlogged = true};
  Run(1e6, 60e6, 300);
  EXPECT_EQ(count_.used(), used);
}

TEST_F(LaneScalerTest, KnowsWhenMoreLanesCarryNoMore) {
  EXPECT_FALSE(count_.is_enough()) << "not tried";
  Run(60e6, 100e6, 5);
  EXPECT_FALSE(count_.is_enough()) << "they brought nothing, but nothing was lost either: it may have been chance";
  resent_ = 0.02;
  while (changes_ < 3) Tick(60e6, 100e6);
  resent_ = 0.05;
  Run(60e6, 100e6, 5);
  EXPECT_TRUE(count_.is_enough());
  resent_ = 0;
  now_ += std::chrono::minutes(2);
  Run(10e6, 1e12, 4);
  EXPECT_FALSE(count_.is_enough());
  Run(10e6, 1e12, 60);
  EXPECT_TRUE(count_.is_enough()) << "there are no more";
}

TEST_F(LaneScalerTest, WhoIsNotBackloggedIsNotJudged) {
  demand_.backlogged = false;
  Run(10e6, 100e6, 60);
  EXPECT_EQ(changes_, 0);
}

TEST_F(LaneScalerTest, ARateThatStillGrowsIsWaitedFor) {
  for (double lane = 1e6; lane < 400e6; lane *= 1.02) Tick(lane, 1e12);
  EXPECT_EQ(changes_, 0);
}

TEST_F(LaneScalerTest, LanesThatCannotBeOpenedAreNotCountedOn) {
  up_max_ = 8;
  Run(1e6, 1e12, 600);
  EXPECT_LE(changes_, 16) << "two for those there are, and a few trials";
}

TEST_F(LaneScalerTest, LanesThatTakeLongToOpenGetTheirChance) {
  opening_ = milliseconds(1450);
  Run(10e6, 160e6, 60);
  EXPECT_GE(count_.used(), 16u);
}

TEST_F(LaneScalerTest, ManyThatEachCountAreFoundInNoTime) {
  Run(1e6, 100e6, 15);
  EXPECT_GE(count_.used(), 100u);
}

TEST_F(LaneScalerTest, LanesStayOpenUntilALongRest) {
  Run(10e6, 200e6, 60);
  Run(200e6, 200e6, 1);
  const std::size_t many = count_.wanted(now_);
  EXPECT_GE(many, 20u);
  EXPECT_EQ(count_.wanted(now_ + std::chrono::seconds(59)), many);
  EXPECT_EQ(count_.wanted(now_ + std::chrono::minutes(1)), LaneScaler::kFirst);
}

TEST_F(LaneScalerTest, LanesThatOverdriveBecomeFewerUntilThatCosts) {
  Run(10e6, 100e6, 60);
  const std::size_t many = count_.used();
  ASSERT_GE(many, 9u);
  resent_ = 0.1;
  Run(30e6, 100e6, 30);
  EXPECT_EQ(count_.used(), LaneScaler::kFirst) << "four of them fill the path";
  resent_ = 0;
  Run(10e6, 100e6, 60);
  ASSERT_GE(count_.used(), 9u);
  resent_ = 0.1;
  Run(10e6, 100e6, 60);
  EXPECT_GE(count_.used(), 9u) << "each is bound by what it loses";
  Run(5e6, 100e6, 120);
  EXPECT_GE(count_.used(), 15u);
}

TEST_F(LaneScalerTest, WhereThePathLosesAtAnyRateManyAreFoundInNoTime) {
  resent_ = 0.05;
  Run(1e6, 100e6, 20);
  EXPECT_GE(count_.used(), 90u);
}

TEST_F(LaneScalerTest, TrialsThatBringNothingBecomeRareWhereThePathLosesToo) {
  resent_ = 0.05;
  Run(10e6, 150e6, 60);
  const int before = changes_;
  Run(10e6, 150e6, 600);
  EXPECT_LE(changes_ - before, 28) << "10 s, 20 s, 40 s ..: fewer and back, more and back";
}

TEST_F(LaneScalerTest, AsManyAsThereCanBeBecomeFewerWhereTheyOverdrive) {
  resent_ = 0.05;
  Run(1e6, 1e12, 60);
  ASSERT_EQ(count_.used(), 125u);
  resent_ = 0.2;
  Run(30e6, 100e6, 120);
  EXPECT_LE(count_.used(), 8u);
}

TEST_F(LaneScalerTest, FewLossesAreNoReason) {
  Run(10e6, 100e6, 60);
  resent_ = 0.02;
  Run(30e6, 100e6, 60);
  EXPECT_GE(count_.used(), 9u);
}

TEST_F(LaneScalerTest, AfterAMinuteOfRestThereAreFew) {
  Run(10e6, 100e6, 60);
  ASSERT_GT(count_.used(), LaneScaler::kFirst);
  now_ += std::chrono::seconds(59);
  Tick(10e6, 100e6);
  EXPECT_GT(count_.used(), LaneScaler::kFirst);
  now_ += std::chrono::seconds(60);
  Tick(10e6, 100e6);
  EXPECT_EQ(count_.used(), LaneScaler::kFirst);
}

TEST_F(LaneScalerTest, AfterAMinuteOfRestTrialsBeginAsAtFirst) {
  const auto ticks_to_trial = [this] {
    int ticks = 0;
    for (const int before = changes_; changes_ == before; ++ticks) Tick(10e6, 100e6);
    return ticks;
  };
  const int first = ticks_to_trial();
  Run(10e6, 100e6, 60);
  now_ += std::chrono::minutes(1);
  Tick(10e6, 100e6);
  EXPECT_EQ(1 + ticks_to_trial(), first);
  demand_.pace = 1;
  Tick(10e6, 100e6);
  now_ += std::chrono::minutes(1);
  Tick(10e6, 100e6);
  EXPECT_EQ(count_.used(), LaneScaler::kPaced) << "its pace is not forgotten";
}

TEST_F(LaneScalerTest, ATrialThatTrafficLeavesIsNone) {
  while (count_.used() == LaneScaler::kFirst) Tick(10e6, 100e6);
  now_ += std::chrono::seconds(5);
  Tick(10e6, 100e6);
  EXPECT_EQ(count_.used(), LaneScaler::kFirst);
  Run(10e6, 100e6, 10);
  EXPECT_GT(count_.used(), LaneScaler::kFirst) << "and may come again";
}

TEST_F(LaneScalerTest, ThereIsAnEnd) {
  Run(1e6, 1e12, 600);
  EXPECT_EQ(count_.used(), 125u) << "and three for small segments";
}

}  // namespace
}  // namespace ringway::flow
