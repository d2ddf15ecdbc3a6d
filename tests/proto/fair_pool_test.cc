#include "proto/fair_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

namespace ringway {
namespace {

constexpr TimePoint kFirstHour{std::chrono::hours(1)};
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

// Else whoever comes would make a user fail that only registers its memory anew.
TEST(FairPoolTest, NewcomerCannotTakeWhatAnotherHasJustGivenBack) {
  FairPool pool(1024);
  ASSERT_TRUE(pool.TryTake(kModest, 768));
  ASSERT_TRUE(pool.TryTake(kGreedy, 192));
  pool.Give(kModest, 768);
  EXPECT_FALSE(pool.TryTake(kGreedy, 1));
  EXPECT_EQ(pool.limit(kModest), 768U);
  EXPECT_TRUE(pool.TryTake(kModest, 768));
  EXPECT_FALSE(pool.TryTake(kModest, 1)) << "it gets no more than it had";
}

TEST(FairPoolTest, ReservationLastsAtLeastItsTimeAndAtMostTwice) {
  FairPool pool(1024);
  pool.Age(kFirstHour);
  ASSERT_TRUE(pool.TryTake(kModest, 768));
  pool.Age(kFirstHour + FairPool::kKeep - Duration(1));
  pool.Give(kModest, 700);
  pool.Age(kFirstHour + FairPool::kKeep);
  EXPECT_EQ(pool.reserved(kModest), 768U);
  pool.Age(kFirstHour + 2 * FairPool::kKeep - Duration(1));
  EXPECT_EQ(pool.limit(kGreedy), 192U);
  pool.Age(kFirstHour + 2 * FairPool::kKeep);
  EXPECT_EQ(pool.reserved(kModest), 68U);
  EXPECT_EQ(pool.limit(kGreedy), FairPool::ShareOf(1024 - 68));
}

TEST(FairPoolTest, WhoIsForgottenKeepsWhatItHoldsOnly) {
  FairPool pool(1024);
  ASSERT_TRUE(pool.TryTake(kModest, 768));
  pool.Give(kModest, 668);
  pool.Forget(kModest);
  EXPECT_EQ(pool.reserved(kModest), 100U);
  pool.Give(kModest, 100);
  pool.Forget(kModest);
  EXPECT_EQ(pool.limit(kGreedy), 768U);
}

// Whatever users do, what is reserved for one is there.
TEST(FairPoolTest, WhatIsReservedCanAlwaysBeTaken) {
  std::mt19937 random(1);
  FairPool pool(1000);
  TimePoint now = kFirstHour;
  for (int step = 0; step < 20'000; ++step) {
    const HostUser user{.uid = static_cast<std::uint32_t>(random() % 5), .is_limited = random() % 5 != 0};
    const std::uint64_t amount = random() % 400;
    switch (random() % 8) {
      case 0:
        pool.Forget(user);
        break;
      case 1:
        pool.Age(now += FairPool::kKeep / 4);
        break;
      case 2:
      case 3:
        pool.Give(user, std::min(amount, pool.used(user)));
        break;
      default:
        (void)pool.TryTake(user, amount);
    }
    FairPool all_come_back = pool;
    for (std::uint32_t uid = 0; uid < 5; ++uid) {
      const HostUser one{.uid = uid, .is_limited = true};
      ASSERT_TRUE(all_come_back.TryTake(one, pool.reserved(one) - pool.used(one))) << "step " << step;
    }
    ASSERT_LE(all_come_back.used(), pool.total());
  }
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
    EXPECT_EQ(pool->reserved(kGreedy), 0U) << "it was the user's last";
  }
  EXPECT_EQ(pool->used(), 0U);
}

}  // namespace
}  // namespace ringway
