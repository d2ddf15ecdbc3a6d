// What a rank submits too late is in the sums of later steps: client/README.md, late ranks.
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "tests/e2e/cluster.h"

namespace ringway::e2e {
namespace {

// [readme]
OpOptions OfAStep() {
  return {.quorum = Quorum::Ranks(2),  // go on with the inputs of two ranks
          .late = Late::kNext,         // and add what comes later to the next step's
          .error_feedback = "gradients"};
}
// [/readme]

OpOptions AtTheEnd() {
  OpOptions options = OfAStep();
  options.quorum = Quorum::Percent(100);
  return options;
}

TEST(LateRanksTest, AllReduceOfAllAtTheEndAddsWhatWasKept) {
  Cluster cluster({.daemons = 3});
  const Sessions ranks = cluster.JoinWorld(3);
  ASSERT_EQ(ranks.size(), 3U);
  constexpr std::size_t kCount = 1000;
  constexpr int kSteps = 3;
  const auto all_reduce = [&](std::size_t first, std::size_t last, float value, const OpOptions& options) {
    std::vector<std::vector<float>> data(last - first, std::vector<float>(kCount, value));
    std::vector<Work> works;
    for (std::size_t i = first; i < last; ++i) {
      float* mine = data[i - first].data();
      auto work = ranks[i]->AllReduceAsync(mine, mine, kCount, DType::kF32, ReduceOp::kSum, options);
      EXPECT_TRUE(work.ok()) << work.status().text();
      if (work.ok()) works.push_back(std::move(*work));
    }
    bool is_kept = false;
    for (Work& work : works) {
      const auto result = work.Wait(kPatience);
      EXPECT_TRUE(result.ok()) << result.status().text();
      if (!result.ok()) continue;
      EXPECT_EQ(result->is_kept, result->is_late);
      is_kept = is_kept || result->is_kept;
    }
    for (const std::vector<float>& one : data) EXPECT_EQ(one, data.front());
    return std::pair(data.front()[0], is_kept);
  };
  for (int step = 0; step < kSteps; ++step) EXPECT_EQ(all_reduce(0, 2, 1, OfAStep()), std::pair(2.0f, false));
  for (int step = 0; step < kSteps; ++step) EXPECT_EQ(all_reduce(2, 3, 100, OfAStep()), std::pair(2.0f, true));
  EXPECT_EQ(all_reduce(0, 3, 0, AtTheEnd()), std::pair(100.0f * kSteps, false));
  EXPECT_EQ(all_reduce(0, 3, 0, AtTheEnd()), std::pair(0.0f, false)) << "it is added once";
}

Result<OpResult> AllReduceOf(Session& session, float* value, ReduceOp op = ReduceOp::kSum) {
  return session.AllReduce(value, value, 1, DType::kF32, op);
}

TEST(LateRanksTest, GroupsGoOnAsTheyWereJoined) {
  Cluster cluster({.daemons = 3});
  std::vector<JoinOptions> options;
  for (std::size_t i = 0; i < 3; ++i) {
    options.push_back(cluster.At(i, "job", 3));
    options.back().quorum = Quorum::Ranks(2);
  }
  const Sessions ranks = cluster.JoinAll(options);
  ASSERT_EQ(ranks.size(), 3U);
  std::vector<float> values = {1, 10, 100};
  std::vector<Work> works;
  for (std::size_t i = 0; i < 2; ++i) {
    auto work = ranks[i]->AllReduceAsync(&values[i], &values[i], 1, DType::kF32, ReduceOp::kSum);
    ASSERT_TRUE(work.ok()) << work.status().text();
    works.push_back(std::move(*work));
  }
  for (Work& work : works) EXPECT_TRUE(work.Wait(kPatience).ok());
  const auto late = AllReduceOf(*ranks[2], &values[2]);
  ASSERT_TRUE(late.ok()) << late.status().text();
  EXPECT_TRUE(late->is_late);
  EXPECT_FALSE(late->is_kept);
  EXPECT_EQ(values, (std::vector<float>{11, 11, 11}));
}

TEST(LateRanksTest, MembersWithOtherQuorumsAllLearnSo) {
  Cluster cluster({.daemons = 2});
  std::vector<JoinOptions> options = {cluster.At(0, "job", 2), cluster.At(1, "job", 2)};
  options[0].quorum = Quorum::Ranks(2);
  const Sessions ranks = cluster.JoinAll(options);
  ASSERT_EQ(ranks.size(), 2U);
  float one = 1, other = 2;
  auto first = ranks[0]->AllReduceAsync(&one, &one, 1, DType::kF32, ReduceOp::kSum);
  ASSERT_TRUE(first.ok()) << first.status().text();
  for (const auto& result : {AllReduceOf(*ranks[1], &other), first->Wait(kPatience)}) {
    EXPECT_EQ(result.status().code(), Code::kMismatch) << result.status().text();
    EXPECT_NE(result.status().text().find("quorum of 2"), std::string::npos) << result.status().text();
  }
}

}  // namespace
}  // namespace ringway::e2e
