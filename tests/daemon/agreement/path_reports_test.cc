#include "daemon/agreement/path_reports.h"

#include <gtest/gtest.h>

#include <vector>

namespace ringway::agreement {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

class PathReportsTest : public testing::Test {
 protected:
  static constexpr PeerId kA{1};
  static constexpr PeerId kB{2};
  static constexpr flow::Bandwidth kNothingNew{};
  static constexpr bool kMeasured = true;

  // Samples of 50 ms for so long, each with the bandwidth. Returns the reports made meanwhile.
  std::vector<PathReport> Run(PeerId other, double rate, Duration time, bool is_measured = kMeasured) {
    std::vector<PathReport> reports;
    for (const TimePoint end = now_ + time; now_ < end;) {
      now_ += milliseconds(50);
      const flow::PathSample sample{.other = other,
                                    .traffic = {},
                                    .round_trip = round_trip_,
                                    .carried = carried_,
                                    .bandwidth = {.bytes_per_second = rate, .is_measured = is_measured}};
      reports_.Add({&sample, 1}, uplink_, now_);
      for (const PathReport& report : reports_.Take(now_)) reports.push_back(report);
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

  PathReports reports_;
  flow::Bandwidth uplink_;
  TimePoint now_{seconds(10)};
  Duration round_trip_ = milliseconds(100);
  std::uint64_t carried_ = std::uint64_t{1} << 30;
};

TEST_F(PathReportsTest, WhatIsMeasuredIsReportedOnceWithItsRoundTrip) {
  const auto reports = Run(kA, 50e6, seconds(10));
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].other, kA);
  EXPECT_EQ(reports[0].bytes_per_second, 50'000'000u);
  EXPECT_EQ(reports[0].round_trip, Duration(milliseconds(100)));
}

TEST_F(PathReportsTest, AChangeOfMoreThanAQuarterIsReportedAndNoiseIsNot) {
  EXPECT_EQ(Run(kA, 50e6, seconds(1)).size(), 1u);
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(Run(kA, 60e6, seconds(4)).empty());
    EXPECT_TRUE(Run(kA, 42e6, seconds(4)).empty());
  }
  EXPECT_EQ(Last(Run(kA, 5e6, seconds(4)), kA), 5e6);
  EXPECT_EQ(Last(Run(kA, 50e6, seconds(1)), kA), 50e6) << "more at once";
}

TEST_F(PathReportsTest, WhatAColdPathShowsIsALowerBound) {
  carried_ = 32 * 1'000'000 - 1;
  EXPECT_TRUE(Run(kA, 10e6, seconds(10)).empty()) << "less than 32 round trips of 100 ms at this rate";
  EXPECT_EQ(Last(Run(kA, 9e6, seconds(1)), kA), 9e6) << "but more than at this one";
  EXPECT_EQ(Last(Run(kA, 90e6, seconds(1)), kA), 90e6) << "the path takes so much, at least";
  EXPECT_TRUE(Run(kA, 20e6, seconds(10)).empty());
  carried_ = 64 << 20;
  EXPECT_EQ(Last(Run(kA, 70e6, seconds(10)), kA), 70e6) << "fast ones are known sooner";
}

TEST_F(PathReportsTest, ALossThatPassesIsNoNews) {
  Run(kA, 50e6, seconds(1));
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(Run(kA, 5e6, milliseconds(2900)).empty());
    EXPECT_TRUE(Run(kA, 50e6, milliseconds(50)).empty());
  }
}

TEST_F(PathReportsTest, TimeWithoutMeasurementsIsNoEvidenceOfALoss) {
  Run(kA, 50e6, seconds(1));
  for (int i = 0; i < 20; ++i) {
    now_ += minutes(2);
    EXPECT_TRUE(Run(kA, 5e6, seconds(1)).empty());
    EXPECT_TRUE(Run(kA, 50e6, milliseconds(50)).empty());
  }
  double last = 0;
  for (int i = 0; i < 4; ++i) {
    now_ += minutes(2);
    last = Last(Run(kA, 5e6, seconds(1)), kA);
  }
  EXPECT_EQ(last, 5e6) << "of four operations together";
}

TEST_F(PathReportsTest, WhatAProbeEndsWithIsBelievedAtOnce) {
  Run(kA, 50e6, seconds(1));
  Run(kA, 30e6, milliseconds(100));
  Run(kA, 20e6, milliseconds(100));
  reports_.OnProbed({kA});
  now_ += seconds(1);
  EXPECT_EQ(Last(reports_.Take(now_), kA), 20e6);
  EXPECT_EQ(reports_.RateOf(kA), 20e6);
}

TEST_F(PathReportsTest, AtMostOneReportASecond) {
  std::size_t words = 0;
  for (int i = 0; i < 20; ++i) words += Run(kA, 10e6 * (1 << i), milliseconds(500)).size();
  EXPECT_GE(words, 9u);
  EXPECT_LE(words, 11u) << "10 s went by";
}

TEST_F(PathReportsTest, ALowerBoundCountsAfterAProbeAndThenWhereItIsMore) {
  EXPECT_TRUE(Run(kA, 20e6, seconds(10), !kMeasured).empty());
  reports_.OnProbed({kB});
  EXPECT_TRUE(reports_.Take(now_).empty());
  reports_.OnProbed({kA});
  EXPECT_EQ(Last(reports_.Take(now_), kA), 20e6);
  EXPECT_TRUE(Run(kA, 10e6, seconds(10), !kMeasured).empty());
  EXPECT_EQ(Last(Run(kA, 30e6, seconds(2), !kMeasured), kA), 30e6);
}

TEST_F(PathReportsTest, AMeasuredUplinkIsReportedAndALowerBoundAfterAProbeOfSeveral) {
  uplink_.bytes_per_second = 40e6;
  EXPECT_EQ(Last(Run(kA, 30e6, seconds(1)), std::nullopt), 0);
  reports_.OnProbed({kA});
  EXPECT_TRUE(reports_.Take(now_).empty());
  reports_.OnProbed({kA, kB});
  EXPECT_EQ(Last(reports_.Take(now_), std::nullopt), 40e6);
  uplink_ = {.bytes_per_second = 25e6, .is_measured = true};
  EXPECT_EQ(Last(Run(kA, 30e6, seconds(4)), std::nullopt), 25e6);
}

TEST_F(PathReportsTest, AnUplinkIsNoLessThanAnyPathWhateverAProbeOfSeveralShows) {
  uplink_.bytes_per_second = 40e6;
  Run(kA, 900e6, seconds(1));
  reports_.OnProbed({kA, kB});
  EXPECT_EQ(Last(reports_.Take(now_), std::nullopt), 900e6);
}

TEST_F(PathReportsTest, ARateFromBeforeIsReportedUntilOneIsMeasured) {
  reports_.Recall(kA, 30e6);
  reports_.Recall({}, 40e6);
  auto reports = reports_.Take(now_);
  EXPECT_EQ(Last(reports, kA), 30e6);
  EXPECT_EQ(Last(reports, std::nullopt), 40e6);
  Run(kA, 10e6, seconds(1));
  EXPECT_EQ(reports_.RateOf(kA), 10e6);
  reports_.Recall(kA, 90e6);
  EXPECT_EQ(reports_.RateOf(kA), 10e6) << "what was measured is newer";
  reports_.Adopt(kA, 20e6);
  EXPECT_EQ(reports_.RateOf(kA), 20e6) << "another peer's probe is newer yet";
}

TEST_F(PathReportsTest, AnotherRouteIsReportedWhenTheOldOneIsForgotten) {
  Run(kA, 50e6, seconds(1));
  round_trip_ = milliseconds(120);
  EXPECT_TRUE(Run(kA, 50e6, minutes(20)).empty()) << "that is no other route";
  round_trip_ = milliseconds(150);
  EXPECT_TRUE(Run(kA, 50e6, minutes(1)).empty()) << "it may be a queue";
  auto reports = Run(kA, 50e6, minutes(10));
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_TRUE(reports[0].rerouted);
  EXPECT_EQ(reports[0].round_trip, Duration(milliseconds(150)));
  round_trip_ = milliseconds(50);
  reports = Run(kA, 50e6, seconds(1));
  ASSERT_EQ(reports.size(), 1u) << "a shorter one at once";
  EXPECT_TRUE(reports[0].rerouted);
}

TEST_F(PathReportsTest, AMasterThatForgotGetsReportsAgainButNotOfGonePeers) {
  Run(kA, 50e6, seconds(1));
  Run(kB, 50e6, seconds(1));
  EXPECT_TRUE(reports_.Take(now_).empty());
  reports_.Forget(kB);
  reports_.Repeat();
  const auto reports = reports_.Take(now_);
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].other, kA);
}

}  // namespace
}  // namespace ringway::agreement
