#include "proto/log_budget.h"

#include <gtest/gtest.h>

namespace ringway {
namespace {

constexpr TimePoint kStart{std::chrono::seconds(7)};

TEST(LogBudgetTest, SomeLinesAtOnceThenOneAPeriodWithTheCountOfTheOthers) {
  LogBudget budget;
  for (std::int64_t i = 0; i < LogBudget::kAtOnce; ++i) EXPECT_EQ(budget.Take(kStart), 0u);
  for (int i = 0; i < 1000; ++i) EXPECT_FALSE(budget.Take(kStart + LogBudget::kPeriod / 2));
  EXPECT_EQ(budget.Take(kStart + LogBudget::kPeriod), 1000u);
  EXPECT_FALSE(budget.Take(kStart + LogBudget::kPeriod));
  EXPECT_EQ(budget.Take(kStart + 2 * LogBudget::kPeriod), 1u);
}

TEST(LogBudgetTest, WhatWasSavedUpIsBounded) {
  LogBudget budget;
  int lines = 0;
  for (int i = 0; i < 1000; ++i) lines += budget.Take(kStart + std::chrono::hours(1)) ? 1 : 0;
  EXPECT_EQ(lines, LogBudget::kAtOnce);
  lines = 0;
  for (int i = 0; i < 1000; ++i) lines += budget.Take(kStart + std::chrono::hours(9)) ? 1 : 0;
  EXPECT_EQ(lines, LogBudget::kAtOnce);
}

TEST(LogBudgetTest, SummaryIsDueOnceAndOnlyIfLinesWereLeftOut) {
  LogBudget budget;
  EXPECT_FALSE(budget.TakeSummary(kStart));
  for (std::int64_t i = 0; i < LogBudget::kAtOnce + 3; ++i) (void)budget.Take(kStart);
  EXPECT_FALSE(budget.TakeSummary(kStart)) << "a line too, so it has to wait";
  EXPECT_EQ(budget.TakeSummary(kStart + LogBudget::kPeriod), 3u);
  EXPECT_FALSE(budget.TakeSummary(kStart + 2 * LogBudget::kPeriod));
}

TEST(LogBudgetTest, IsFreshAgainWhenItHasRestedAndReportedWhatItLeftOut) {
  constexpr Duration kSecond = std::chrono::seconds(1);
  LogBudget budget(2, kSecond);
  EXPECT_TRUE(budget.IsFresh());
  for (int i = 0; i < 3; ++i) (void)budget.Take(kStart);
  EXPECT_EQ(budget.TakeSummary(kStart + 9 * kSecond), 1u);
  EXPECT_FALSE(budget.IsFresh()) << "the summary was a line, too";
  EXPECT_EQ(budget.TakeSummary(kStart + 10 * kSecond), std::nullopt);
  EXPECT_TRUE(budget.IsFresh());
}

}  // namespace
}  // namespace ringway
