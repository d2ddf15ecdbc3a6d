#include "proto/memory_budget.h"

#include <gtest/gtest.h>

namespace ringway {
namespace {

std::string TextOf(MemoryShare& share, MemoryUse use, std::uint64_t bytes) {
  const Status status = share.Take(use, bytes);
  EXPECT_EQ(status.code(), Code::kResourceExhausted);
  return status.text();
}

class MemoryBudgetTest : public testing::Test {
 protected:
  std::shared_ptr<MemoryBudget> budget_ = std::make_shared<MemoryBudget>(1000);
  MemoryShare a_{budget_};
  MemoryShare b_{budget_};
};

TEST_F(MemoryBudgetTest, SessionGetsHalfAndTheTextSaysThatItsShareIsFull) {
  EXPECT_TRUE(a_.TryTake(MemoryUse::kRegions, 500));
  EXPECT_FALSE(a_.TryTake(MemoryUse::kResults, 1));
  EXPECT_NE(TextOf(a_, MemoryUse::kResults, 1).find("this session has 500 of at most 500"), std::string::npos);
  EXPECT_TRUE(b_.TryTake(MemoryUse::kResults, 1)) << "another has its own";
}

TEST_F(MemoryBudgetTest, RegionsLeaveAQuarterToWorkWith) {
  EXPECT_TRUE(a_.TryTake(MemoryUse::kRegions, 500));
  EXPECT_TRUE(b_.TryTake(MemoryUse::kRegions, 250));
  EXPECT_NE(TextOf(b_, MemoryUse::kRegions, 1).find("all sessions have 750 of at most 750 bytes for regions"),
            std::string::npos);
  EXPECT_TRUE(b_.TryTake(MemoryUse::kEarly, 250));
  MemoryShare third(budget_);
  EXPECT_NE(TextOf(third, MemoryUse::kEarly, 1).find("the daemon has 1000 of its --memory-max of 1000"),
            std::string::npos);
}

TEST_F(MemoryBudgetTest, WhatIsPutAsideIsBoundedOverAllSessions) {
  EXPECT_TRUE(a_.TryTake(MemoryUse::kReorder, 125));
  EXPECT_TRUE(b_.TryTake(MemoryUse::kReorder, 125));
  EXPECT_FALSE(b_.TryTake(MemoryUse::kReorder, 1));
  a_.Give(MemoryUse::kReorder, 1);
  EXPECT_TRUE(b_.TryTake(MemoryUse::kReorder, 1));
  EXPECT_LE(MemoryBudget(1ULL << 50).limit(MemoryUse::kReorder), MemoryBudget::kReorderBytesMax);
  EXPECT_LE(MemoryBudget().limit(MemoryUse::kReorder), MemoryBudget::kReorderBytesMax);
}

TEST_F(MemoryBudgetTest, ShareThatGoesGivesEverythingBack) {
  {
    MemoryShare gone(budget_);
    EXPECT_TRUE(gone.TryTake(MemoryUse::kRegions, 300));
    EXPECT_TRUE(gone.TryTake(MemoryUse::kEarly, 100));
  }
  EXPECT_EQ(budget_->used(), 0u);
  EXPECT_EQ(budget_->used(MemoryUse::kRegions), 0u);
}

constexpr HostUser kOneUser{.uid = 1001, .is_limited = true};
constexpr HostUser kOtherUser{.uid = 1002, .is_limited = true};

TEST_F(MemoryBudgetTest, SessionsOfAUserTogetherLeaveRoomForAnotherUsers) {
  MemoryShare first(budget_, kOneUser);
  MemoryShare second(budget_, kOneUser);
  EXPECT_TRUE(first.TryTake(MemoryUse::kRegions, 500));
  EXPECT_TRUE(second.TryTake(MemoryUse::kRegions, 63)) << "three quarters of the 750 for regions";
  EXPECT_NE(TextOf(second, MemoryUse::kRegions, 1).find("user 1001 has 563 of at most 563 bytes, its share"),
            std::string::npos);
  EXPECT_TRUE(second.TryTake(MemoryUse::kEarly, 187));
  EXPECT_NE(TextOf(second, MemoryUse::kEarly, 1).find("user 1001 has 750 of at most 750 bytes"), std::string::npos);
  MemoryShare others(budget_, kOtherUser);
  EXPECT_TRUE(others.TryTake(MemoryUse::kRegions, 141)) << "three quarters of what is left";
  EXPECT_TRUE(others.TryTake(MemoryUse::kResults, 47));
  EXPECT_FALSE(others.TryTake(MemoryUse::kResults, 1));
}

TEST_F(MemoryBudgetTest, UserMayRegisterAnewWhatItHadUntilItsLastSessionEnds) {
  MemoryShare greedy(budget_, kOtherUser);
  {
    MemoryShare first(budget_, kOneUser);
    MemoryShare second(budget_, kOneUser);
    ASSERT_TRUE(first.TryTake(MemoryUse::kRegions, 500));
    ASSERT_TRUE(greedy.TryTake(MemoryUse::kRegions, 188));
    first.Give(MemoryUse::kRegions, 500);
    EXPECT_NE(TextOf(greedy, MemoryUse::kRegions, 1).find("user 1002 has 188 of at most 188 bytes"), std::string::npos);
    EXPECT_TRUE(second.TryTake(MemoryUse::kRegions, 500));
  }
  EXPECT_TRUE(greedy.TryTake(MemoryUse::kRegions, 312));
}

TEST_F(MemoryBudgetTest, WhatAUserNoLongerNeedsIsFreeAfterAWhile) {
  MemoryShare first(budget_, kOneUser);
  MemoryShare other(budget_, kOtherUser);
  ASSERT_TRUE(first.TryTake(MemoryUse::kRegions, 500));
  first.Give(MemoryUse::kRegions, 500);
  EXPECT_FALSE(other.TryTake(MemoryUse::kRegions, 500));
  for (int i = 1; i <= 3; ++i) budget_->Age(TimePoint() + i * FairPool::kKeep);
  EXPECT_TRUE(other.TryTake(MemoryUse::kRegions, 500));
}

TEST_F(MemoryBudgetTest, AbsurdAmountsDoNotWrapAround) {
  EXPECT_TRUE(a_.TryTake(MemoryUse::kRegions, 10));
  EXPECT_FALSE(a_.TryTake(MemoryUse::kRegions, ~std::uint64_t{0} - 5));
  EXPECT_EQ(a_.used(), 10u);
}

}  // namespace
}  // namespace ringway
