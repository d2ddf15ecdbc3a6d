// Made-up traffic in ticks of 50 ms over paths of 100 ms round trip, unless a test says otherwise.
#include "daemon/flow/path_estimator.h"

#include <gtest/gtest.h>

#include <vector>

#include "daemon/flow/traffic.h"

namespace ringway::flow {
namespace {

using std::chrono::milliseconds;

class PathEstimatorTest : public testing::Test {
 protected:
  static constexpr PeerId kA{1};
  static constexpr PeerId kB{2};
  static constexpr Duration kTick = milliseconds(50);
  static constexpr double kTickSeconds = 0.05;

  struct Flow {
    PeerId to;
    double rate = 0;
    bool backlogged = true;
    bool receiver_limited = false;
  };

  // Returns the reports made meanwhile.
  std::vector<PathReport> Run(const std::vector<Flow>& flows, int ticks) {
    std::vector<PathReport> reports;
    for (int tick = 0; tick < ticks; ++tick) {
      now_ += kTick;
      std::vector<PathSample> samples;
      for (const Flow& flow : flows) {
        samples.push_back({.other = flow.to,
                           .traffic = {.delivered = flow.rate * kTickSeconds},
                           .backlogged = flow.backlogged,
                           .receiver_limited = flow.receiver_limited,
                           .round_trip = round_trip_});
      }
      meter_.Add(samples, now_);
      for (const PathReport& report : meter_.TakeReports(now_)) reports.push_back(report);
    }
    return reports;
  }

  // The last word on a path, or with nobody on the uplink; 0: none.
  static double Last(const std::vector<PathReport>& reports, std::optional<PeerId> other) {
    double rate = 0;
    for (const PathReport& report : reports) {
      if (report.other == other) rate = static_cast<double>(report.bytes_per_second);
    }
    return rate;
  }

  PathEstimator meter_;
  TimePoint now_{std::chrono::seconds(10)};
  Duration round_trip_ = milliseconds(100);
};

TEST_F(PathEstimatorTest, ABackloggedPathIsMeasuredAndReported) {
  const auto reports = Run({{kA, 50e6}}, 20);
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].other, kA);
  EXPECT_NEAR(Last(reports, kA), 50e6, 1e4);
  EXPECT_EQ(reports[0].round_trip, Duration(milliseconds(100)));
}

TEST_F(PathEstimatorTest, WhatTheTrainerSendsByDropsSaysNothingOfThePath) {
  EXPECT_TRUE(Run({{kA, 2e6, false}}, 100).empty());
}

TEST_F(PathEstimatorTest, BurstsShorterThanAWindowSayNothingByThemselves) {
  for (int burst = 0; burst < 30; ++burst) {
    EXPECT_TRUE(Run({{kA, 400e6}}, 2).empty());
    EXPECT_TRUE(Run({{kA, 0, false}}, 3).empty());
  }
}

TEST_F(PathEstimatorTest, AGrowingCongestionWindowIsWaitedFor) {
  for (const double rate : {1e6, 3e6, 9e6, 27e6}) EXPECT_TRUE(Run({{kA, rate}}, 3).empty()) << rate;
  EXPECT_NEAR(Last(Run({{kA, 50e6}}, 20), kA), 50e6, 1e6);
}

TEST_F(PathEstimatorTest, LanesThatStallAtTheirStartAreNotAPathThatIsSlow) {
  Run({{kA, 1e6}}, 4);
  for (const double rate : {0.2e6, 0.01e6, 0.5e6, 0.1e6}) EXPECT_TRUE(Run({{kA, rate}}, 3).empty()) << rate;
  EXPECT_NEAR(Last(Run({{kA, 50e6}}, 20), kA), 50e6, 1e6);
}

TEST_F(PathEstimatorTest, AReceiverThatDoesNotReadIsNotAPathThatIsSlow) {
  EXPECT_TRUE(Run({{kA, 1e6, true, true}}, 40).empty());
  EXPECT_FALSE(Run({{kA, 50e6}}, 40).empty());
}

TEST_F(PathEstimatorTest, AChangeOfMoreThanAQuarterIsReportedAndNoiseIsNot) {
  EXPECT_EQ(Run({{kA, 50e6}}, 20).size(), 1u);
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(Run({{kA, 55e6}}, 5).empty());
    EXPECT_TRUE(Run({{kA, 45e6}}, 5).empty());
  }
  EXPECT_NEAR(Last(Run({{kA, 5e6}}, 100), kA), 5e6, 1.5e6);
  EXPECT_NEAR(Last(Run({{kA, 50e6}}, 100), kA), 50e6, 13e6);
}

TEST_F(PathEstimatorTest, BunchedAcknowledgementsMakeNoNews) {
  Run({{kA, 50e6}}, 20);
  for (int i = 0; i < 50; ++i) {
    EXPECT_TRUE(Run({{kA, 25e6}}, 3).empty());
    EXPECT_TRUE(Run({{kA, 75e6}}, 3).empty());
  }
}

TEST_F(PathEstimatorTest, AtMostOneWordASecond) {
  int words = 0;
  for (int i = 0; i < 20; ++i) words += static_cast<int>(Run({{kA, i % 2 == 0 ? 10e6 : 90e6}}, 20).size());
  EXPECT_GT(words, 3);
  EXPECT_LE(words, 21) << "20 s went by";
}

TEST_F(PathEstimatorTest, TwoPathsThatShareAnUplinkShowItAndKeepTheirRates) {
  Run({{kA, 40e6}}, 20);
  Run({{kB, 40e6}}, 20);
  const auto reports = Run({{kA, 20e6}, {kB, 20e6}}, 40);
  EXPECT_NEAR(Last(reports, std::nullopt), 40e6, 1e5);
  EXPECT_EQ(Last(reports, kA), 0) << "each gets half of the uplink, not of its path";
}

TEST_F(PathEstimatorTest, PathsThatAreTheLimitThemselvesShowNoUplink) {
  Run({{kA, 10e6}}, 20);
  Run({{kB, 10e6}}, 20);
  EXPECT_TRUE(Run({{kA, 10e6}, {kB, 10e6}}, 100).empty());
}

TEST_F(PathEstimatorTest, PathsNeverSeenAloneStayUnknown) { EXPECT_TRUE(Run({{kA, 20e6}, {kB, 20e6}}, 100).empty()); }

TEST_F(PathEstimatorTest, AProbeOfAFastPathThatEndsAtOnceGivesALowerBound) {
  Run({{kA, 0}}, 1);
  Run({{kA, 600e6}}, 1);
  EXPECT_TRUE(Run({{kA, 0, false}}, 1).empty());
  meter_.OnProbed({kA});
  EXPECT_NEAR(Last(meter_.TakeReports(now_), kA), 300e6, 1e6) << "two ticks";
}

TEST_F(PathEstimatorTest, AProbeOfSeveralShowsAnUplinkThatIsNotTheLimit) {
  Run({{kA, 10e6}}, 20);
  Run({{kB, 10e6}}, 20);
  Run({{kA, 10e6}, {kB, 10e6}}, 40);
  EXPECT_TRUE(meter_.TakeReports(now_).empty());
  meter_.OnProbed({kA, kB});
  EXPECT_NEAR(Last(meter_.TakeReports(now_), std::nullopt), 20e6, 1e5);
}

TEST_F(PathEstimatorTest, ARateThatRisesNoMoreForTwoWindowsIsFlat) {
  int windows = 0;
  for (double rate = 1e6; rate < 20e6; rate *= 1.2) {
    Run({{kA, rate}}, 4);
    EXPECT_FALSE(meter_.IsFlat({kA}));
    ++windows;
  }
  ASSERT_GT(windows, 10);
  Run({{kA, 20e6}}, 3);
  EXPECT_FALSE(meter_.IsFlat({kA}));
  Run({{kA, 20e6}}, 6);
  EXPECT_TRUE(meter_.IsFlat({kA}));
  EXPECT_FALSE(meter_.IsFlat({kA, kB}));
  EXPECT_FALSE(meter_.IsFlat({kB}));
  Run({{kA, 0, false}}, 1);
  EXPECT_FALSE(meter_.IsFlat({kA})) << "a rest begins anew";
  Run({{kA, 10e6}, {kB, 10e6}}, 40);
  EXPECT_TRUE(meter_.IsFlat({kA, kB}));
}

TEST_F(PathEstimatorTest, OneWindowIsEnoughForAPathAsFastAsTheBest) {
  const PeerId slow(3);
  Run({{kA, 20e6}}, 20);
  EXPECT_TRUE(meter_.IsFlat({kA}));
  Run({{kA, 0, false}}, 1);
  Run({{kB, 19e6}}, 4);
  EXPECT_FALSE(meter_.IsFlat({kB})) << "it may still grow";
  Run({{kB, 19e6}}, 3);
  EXPECT_TRUE(meter_.IsFlat({kB}));
  Run({{kB, 0, false}}, 1);
  Run({{slow, 15e6}}, 7);
  EXPECT_FALSE(meter_.IsFlat({slow})) << "a plan would avoid it";
  Run({{slow, 15e6}}, 3);
  EXPECT_TRUE(meter_.IsFlat({slow}));
}

TEST_F(PathEstimatorTest, AProbeCountsAsMuchAsAllThatWasMeasuredBefore) {
  Run({{kA, 50e6}}, 60);
  Run({{kA, 0, false}}, 1);
  meter_.OnProbeBegins({kA});
  Run({{kA, 5e6}}, 20);
  EXPECT_LT(meter_.RateOf(kA), 20e6);
  meter_.Adopt(kA, 30e6);
  EXPECT_EQ(meter_.RateOf(kA), 30e6);
}

TEST_F(PathEstimatorTest, ARateFromBeforeIsReportedUntilOneIsMeasured) {
  meter_.Recall(kA, 30e6);
  meter_.Recall({}, 40e6);
  auto reports = meter_.TakeReports(now_);
  EXPECT_NEAR(Last(reports, kA), 30e6, 1);
  EXPECT_NEAR(Last(reports, std::nullopt), 40e6, 1);
  Run({{kB, 10e6}}, 20);
  meter_.Recall(kB, 90e6);
  EXPECT_TRUE(meter_.TakeReports(now_).empty()) << "what was measured is newer";
}

TEST_F(PathEstimatorTest, AnUplinkIsNoLessThanAnyPathWhateverAProbeOfSeveralShows) {
  const PeerId near(3);
  Run({{kA, 10e6}}, 20);
  Run({{kB, 10e6}}, 20);
  Run({{near, 900e6}}, 20);
  Run({{kA, 10e6}, {kB, 10e6}, {near, 900e6}}, 1);  // its bytes are used up at once
  Run({{kA, 10e6}, {kB, 10e6}}, 40);
  meter_.OnProbed({kA, kB, near});
  EXPECT_NEAR(Last(meter_.TakeReports(now_), std::nullopt), 900e6, 1e6);
}

TEST_F(PathEstimatorTest, AnotherRouteIsReportedWhenTheOldOneIsForgotten) {
  Run({{kA, 50e6}}, 20);
  round_trip_ = milliseconds(120);
  EXPECT_TRUE(Run({{kA, 50e6}}, 20 * 60 * 20).empty()) << "that is no other route";
  round_trip_ = milliseconds(150);
  EXPECT_TRUE(Run({{kA, 50e6}}, 20 * 60).empty()) << "it may be a queue";
  auto reports = Run({{kA, 50e6}}, 20 * 60 * 10);
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_TRUE(reports[0].rerouted);
  EXPECT_EQ(reports[0].round_trip, Duration(milliseconds(150)));
  EXPECT_NEAR(Last(reports, kA), 50e6, 1e4);
  round_trip_ = milliseconds(50);
  reports = Run({{kA, 50e6}}, 20);
  ASSERT_EQ(reports.size(), 1u) << "a shorter one at once";
  EXPECT_TRUE(reports[0].rerouted);
}

TEST_F(PathEstimatorTest, AMasterThatForgotGetsReportsAgainButNotOfGonePeers) {
  Run({{kA, 50e6}}, 20);
  Run({{kB, 50e6}}, 20);
  EXPECT_TRUE(meter_.TakeReports(now_).empty());
  meter_.Forget(kB);
  meter_.Repeat();
  const auto reports = meter_.TakeReports(now_);
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].other, kA);
}

}  // namespace
}  // namespace ringway::flow
