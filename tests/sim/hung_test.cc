// Trainers that submit nothing any more, while their daemons live.
#include "tests/sim/scenario.h"

namespace ringway::sim {
namespace {

constexpr Duration kLimit = std::chrono::seconds(20);

TEST(Hung, TheOthersGoOnWithoutIt) {
  auto cluster = Formed(3, {.hung = kLimit});
  const TimePoint start = cluster->now();
  SubmitAll(*cluster, {0, 1}, SumF32(kLarge));
  ASSERT_TRUE(Finish(*cluster, {0, 1}));
  EXPECT_GE(cluster->now() - start, kLimit);
  CheckAgreement(*cluster, {0, 1});
  EXPECT_EQ(cluster->OutcomesOf(0).begin()->second.contributors.size(), 2U);
  ASSERT_TRUE(cluster->RunUntil([&] { return cluster->Ended(2); }));
  EXPECT_EQ(cluster->EndedCode(2), Code::kEvicted);
}

TEST(Hung, OneThatStopsInTheMiddleOfItsInputGoesToo) {
  auto cluster = Formed(3, {.hung = kLimit, .staged_one_of = 1});
  cluster->StopStaging(2);
  SubmitAll(*cluster, {0, 1, 2}, SumF32(kLarge));
  ASSERT_TRUE(Finish(*cluster, {0, 1}));
  CheckAgreement(*cluster, {0, 1});
  EXPECT_EQ(cluster->OutcomesOf(0).begin()->second.contributors.size(), 2U);
  ASSERT_TRUE(cluster->RunUntil([&] { return cluster->Ended(2); }));
  EXPECT_EQ(cluster->EndedCode(2), Code::kEvicted);
}

TEST(Hung, AnUpdateViewGoesOnWithoutIt) {
  auto cluster = Formed(3, {.hung = kLimit});
  SubmitAll(*cluster, {0, 2}, kUpdate);
  ASSERT_TRUE(Finish(*cluster, {0, 2}));
  ASSERT_TRUE(cluster->RunUntil([&] { return cluster->Ended(1); }));
}

TEST(Hung, OneWhoseOperationsFailByTheirDeadlineGoesToo) {
  auto cluster = Formed(3, {.op_deadline = kLimit / 5, .hung = kLimit});
  std::uint64_t failed = 0;
  while (!cluster->Ended(2)) {
    SubmitAll(*cluster, {0, 1}, SumF32(kSmall));
    ASSERT_TRUE(Finish(*cluster, {0, 1}));
    ASSERT_LT(++failed, 50U) << "it stays";
  }
  EXPECT_GT(failed, 1U);
  EXPECT_EQ(cluster->EndedCode(2), Code::kEvicted);
}

TEST(Hung, OneThatSubmitsInTimeStays) {
  auto cluster = Formed(3, {.hung = kLimit});
  SubmitAll(*cluster, {0, 1}, SumF32(kLarge));
  const TimePoint almost = cluster->now() + kLimit * 9 / 10;
  ASSERT_TRUE(cluster->RunUntil([&] { return cluster->now() >= almost; }, kLimit));
  SubmitAll(*cluster, {2}, SumF32(kLarge));
  ASSERT_TRUE(Finish(*cluster, {0, 1, 2}));
  EXPECT_EQ(cluster->OutcomesOf(0).begin()->second.retries, 0U);
}

TEST(Hung, OneThatWentAheadOfMostEvictsNobody) {
  auto cluster = Formed(3, {.hung = kLimit});
  SubmitAll(*cluster, {0}, SumF32(kLarge));
  const TimePoint long_after = cluster->now() + 4 * kLimit;
  ASSERT_TRUE(cluster->RunUntil([&] { return cluster->now() >= long_after; }, 5 * kLimit));
  SubmitAll(*cluster, {1, 2}, SumF32(kLarge));
  ASSERT_TRUE(Finish(*cluster, {0, 1, 2}));
  EXPECT_EQ(cluster->OutcomesOf(0).begin()->second.contributors.size(), 3U);
  EXPECT_LE(cluster->OutcomesOf(0).begin()->second.retries, 4U) << "one attempt for each time that it blames them";
}

}  // namespace
}  // namespace ringway::sim
