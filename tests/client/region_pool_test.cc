// Which regions are kept for the next request, and which are given back.
#include "client/src/region_pool.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace ringway::internal {
namespace {

constexpr std::size_t kLarge = std::size_t{1} << 20;
constexpr std::size_t kSmall = std::size_t{64} << 10;

class RegionPoolTest : public testing::Test {
 protected:
  void SetUp() override { pool_.SetBytesMax(5 * kLarge); }  // of which a quarter may be free for good

  Region* Take(std::size_t bytes) {
    if (Region* const region = pool_.TakeFree(bytes, false)) return region;
    ++created_;
    held_bytes_ += bytes;
    auto memory = SharedMemory::Create(bytes);
    EXPECT_TRUE(memory.ok()) << memory.status().text();
    return memory.ok() ? pool_.Add(pool_.ReserveId(), std::move(memory.value())) : nullptr;
  }
  // Takes and returns regions as an operation with an input and a result of so many bytes.
  void Operate(std::size_t bytes) {
    Region* const input = Take(bytes);
    Region* const result = Take(bytes);
    for (Region* const region : {input, result}) {
      ASSERT_NE(region, nullptr);
      pool_.Release(region);
    }
    while (pool_.HasTooMuchFree()) {
      held_bytes_ -= pool_.OldestFree()->memory.bytes();
      pool_.Evict(pool_.OldestFree());
    }
  }

  RegionPool pool_;
  int created_ = 0;
  std::size_t held_bytes_ = 0;
};

TEST_F(RegionPoolTest, RegionsOfALargeOperationServeTheNextOne) {
  for (int step = 0; step < 3; ++step) Operate(kLarge);
  EXPECT_EQ(created_, 2);
}

TEST_F(RegionPoolTest, SmallOperationsBetweenLargeOnesChangeNothing) {
  for (int step = 0; step < 3; ++step) {
    Operate(kLarge);
    for (int small = 0; small < 10; ++small) Operate(kSmall);
  }
  EXPECT_EQ(created_, 4);
}

TEST_F(RegionPoolTest, LargeRegionsThatServeNothingAnyMoreAreGivenBack) {
  Operate(kLarge);
  ASSERT_FALSE(pool_.HasTooMuchFree());
  for (std::uint64_t request = 0; request < RegionPool::kKeptRequests; request += 2) Operate(kSmall);
  Operate(kLarge);
  EXPECT_EQ(created_, 5);
}

TEST_F(RegionPoolTest, RecentOperationsOfManySizesKeepHalfOfTheLimit) {
  std::size_t bytes = kLarge;
  for (int step = 0; step < 4; ++step) {
    bytes += kSmall;
    Operate(bytes);
    EXPECT_LE(held_bytes_, 5 * kLarge / 2) << bytes;
  }
  EXPECT_EQ(held_bytes_, 2 * bytes);
}

TEST_F(RegionPoolTest, WhatTrainingHasUsedAtOnceIsNotSpareEvenIfItWasGivenBack) {
  EXPECT_TRUE(pool_.IsSpare(5 * kLarge));
  Operate(2 * kLarge);  // of which one region is kept
  EXPECT_FALSE(pool_.Exceeds(2 * kLarge));
  EXPECT_TRUE(pool_.IsSpare(kLarge));
  EXPECT_FALSE(pool_.IsSpare(2 * kLarge));
  pool_.ForgetPeak();
  EXPECT_TRUE(pool_.IsSpare(2 * kLarge));
}

TEST_F(RegionPoolTest, FreeRegionsAreBoundedWithoutALimit) {
  constexpr std::size_t kHuge = std::size_t{3} << 30;
  EXPECT_EQ(RegionPool::KeptBytesMax(0, kHuge), RegionPool::kFreeBytesMax + 2 * kHuge);
}

}  // namespace
}  // namespace ringway::internal
