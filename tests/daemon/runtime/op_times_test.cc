#include "daemon/runtime/op_times.h"

#include <gtest/gtest.h>

namespace ringway::daemon {
namespace {

constexpr Epoch kView(7);

control::PeerCounters Written(const OpTimes& times) {
  control::PeerCounters counters;
  times.WriteTo(counters);
  return counters;
}

OpSample Sample(std::uint64_t bytes, int took_us, Algorithm algorithm = Algorithm::kRing, Epoch epoch = kView) {
  return {epoch, algorithm, bytes, Duration(took_us)};
}

TEST(OpTimesTest, MedianIsOfTheNewestOfItsAlgorithmAndSizeClass) {
  OpTimes times;
  for (int i = 0; i < 100; ++i) times.Add(Sample(1000, 1));
  for (int i = 0; i < static_cast<int>(OpTimes::kNewest); ++i) times.Add(Sample(1024, 100 + i));
  times.Add(Sample(1025, 5));
  times.Add(Sample(1024, 6, Algorithm::kDirect));
  const control::PeerCounters counters = Written(times);
  EXPECT_EQ(counters.times_epoch(), kView.value);
  ASSERT_EQ(counters.times_size(), 3);
  EXPECT_EQ(counters.times(0).size_class(), 10u);
  EXPECT_EQ(counters.times(0).operations(), 100 + OpTimes::kNewest);
  EXPECT_EQ(counters.times(0).median_us(), 107u);
  EXPECT_EQ(counters.times(1).size_class(), 11u);
  EXPECT_EQ(counters.times(1).median_us(), 5u);
  EXPECT_EQ(counters.times(2).algorithm(), static_cast<std::uint32_t>(Algorithm::kDirect));
  EXPECT_EQ(counters.times(2).median_us(), 6u);
}

TEST(OpTimesTest, NewViewForgetsTheTimesOfTheOldAndIgnoresItsLatecomers) {
  OpTimes times;
  times.Add(Sample(4096, 50));
  times.Add(Sample(4096, 70, Algorithm::kTree, Epoch(8)));
  times.Add(Sample(4096, 60));
  const control::PeerCounters counters = Written(times);
  EXPECT_EQ(counters.times_epoch(), 8u);
  ASSERT_EQ(counters.times_size(), 1);
  EXPECT_EQ(counters.times(0).algorithm(), static_cast<std::uint32_t>(Algorithm::kTree));
}

TEST(OpTimesTest, OneMoreThanTheBoundTakesThePlaceOfTheOneUsedLongestAgo) {
  OpTimes times;
  const auto size = [](std::uint32_t size_class) { return std::uint64_t{1} << size_class; };
  for (std::uint32_t i = 0; i < OpTimes::kCellsMax; ++i) times.Add(Sample(size(i), 1));
  times.Add(Sample(size(0), 1));
  times.Add(Sample(size(OpTimes::kCellsMax), 1));
  const control::PeerCounters counters = Written(times);
  ASSERT_EQ(counters.times_size(), static_cast<int>(OpTimes::kCellsMax));
  EXPECT_EQ(counters.times(0).size_class(), 0u);
  EXPECT_EQ(counters.times(1).size_class(), 2u);
}

}  // namespace
}  // namespace ringway::daemon
