#include "proto/fair_pool.h"

#include <gtest/gtest.h>

#include <limits>

namespace ringway {
namespace {

constexpr HostUser kRoot{.uid = 0, .is_limited = false};
constexpr HostUser kGreedy{.uid = 1001, .is_limited = true};
constexpr HostUser kModest{.uid = 1002, .is_limited = true};

TEST(FairPoolTest, UserAloneGetsThreeQuartersAndTheNextThreeQuartersOfTheRest) {
  FairPool pool(1024);
  EXPECT_TRUE(pool.TryTake(kGreedy, 768));
  EXPECT_FALSE(pool.TryTake(kGreedy, 1));
  EXPECT_EQ(pool.limit(kModest), 192U);
  EXPECT_TRUE(pool.TryTake(kModest, 192));
  EXPECT_FALSE(pool.TryTake(kModest, 1));
  EXPECT_EQ(pool.used(), 960U);
}

TEST(FairPoolTest, WhoHoldsMoreThanItsShareNowKeepsItButGetsNoMore) {
  FairPool pool(100);
  ASSERT_TRUE(pool.TryTake(kGreedy, 60));
  ASSERT_TRUE(pool.TryTake(kRoot, 40));
  EXPECT_EQ(pool.limit(kGreedy), 45U);
  EXPECT_FALSE(pool.TryTake(kGreedy, 1));
  pool.Give(kGreedy, 16);
  EXPECT_TRUE(pool.TryTake(kGreedy, 1));
}

TEST(FairPoolTest, RootMayTakeAllThatIsLeft) {
  FairPool pool(100);
  ASSERT_TRUE(pool.TryTake(kGreedy, 10));
  EXPECT_TRUE(pool.TryTake(kRoot, 90));
  EXPECT_FALSE(pool.TryTake(kRoot, 1));
  EXPECT_FALSE(pool.TryTake(kModest, 1));
}

TEST(FairPoolTest, LastOneGoesToWhoeverComes) {
  FairPool pool(1);
  EXPECT_TRUE(pool.TryTake(kModest, 1));
  EXPECT_FALSE(pool.TryTake(kGreedy, 1));
}

TEST(FairPoolTest, AbsurdAmountsDoNotWrapAround) {
  FairPool pool(std::numeric_limits<std::uint64_t>::max());
  EXPECT_TRUE(pool.TryTake(kGreedy, 1));
  EXPECT_FALSE(pool.TryTake(kGreedy, std::numeric_limits<std::uint64_t>::max()));
  EXPECT_EQ(pool.used(), 1U);
}

TEST(PoolChargeTest, GivesBackOnceHoweverItIsMoved) {
  const auto pool = std::make_shared<FairPool>(100);
  {
    ASSERT_TRUE(pool->TryTake(kGreedy, 5));
    PoolCharge charge(pool, kGreedy, 5);
    PoolCharge moved = std::move(charge);
    EXPECT_EQ(pool->used(kGreedy), 5U);
    moved.Reset();
    EXPECT_EQ(pool->used(kGreedy), 0U);
  }
  EXPECT_EQ(pool->used(), 0U);
}

}  // namespace
}  // namespace ringway
