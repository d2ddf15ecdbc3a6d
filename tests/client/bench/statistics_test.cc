#include "client/bench/statistics.h"

#include <gtest/gtest.h>

namespace ringway::bench {
namespace {

TEST(StatisticsTest, MedianAndPercentileOfOddAndEvenCounts) {
  const TimeSummary odd = Summarise({3, 1, 2});
  EXPECT_DOUBLE_EQ(odd.min_ms, 1);
  EXPECT_DOUBLE_EQ(odd.median_ms, 2);
  EXPECT_DOUBLE_EQ(odd.p99_ms, 3);
  EXPECT_DOUBLE_EQ(Summarise({4, 1, 2, 3}).median_ms, 2.5);
  EXPECT_DOUBLE_EQ(Summarise({7}).p99_ms, 7);
}

TEST(StatisticsTest, PercentileIsTheNearestRank) {
  std::vector<double> times;
  for (int i = 1; i <= 200; ++i) times.push_back(i);
  EXPECT_DOUBLE_EQ(Summarise(times).p99_ms, 198);
}

TEST(StatisticsTest, BandwidthsAreThoseOfNcclTests) {
  EXPECT_DOUBLE_EQ(AlgorithmBandwidth(1'000'000'000, 1000), 1.0);
  EXPECT_DOUBLE_EQ(AlgorithmBandwidth(0, 0), 0.0);
  EXPECT_DOUBLE_EQ(BusBandwidth(2.0, 4, OpKind::kAllReduce), 3.0);
  EXPECT_DOUBLE_EQ(BusBandwidth(2.0, 4, OpKind::kAllGather), 1.5);
  EXPECT_DOUBLE_EQ(BusBandwidth(2.0, 4, OpKind::kReduceScatter), 1.5);
  EXPECT_DOUBLE_EQ(BusBandwidth(2.0, 4, OpKind::kSend), 2.0);
  EXPECT_DOUBLE_EQ(BusBandwidth(2.0, 1, OpKind::kAllReduce), 0.0);
}

}  // namespace
}  // namespace ringway::bench
