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
    bool is_late = false;
    for (Work& work : works) {
      const auto result = work.Wait(kPatience);
      EXPECT_TRUE(result.ok()) << result.status().text();
      is_late = is_late || (result.ok() && result->is_late);
    }
    for (const std::vector<float>& one : data) EXPECT_EQ(one, data.front());
    return std::pair(data.front()[0], is_late);
  };
  for (int step = 0; step < kSteps; ++step) EXPECT_EQ(all_reduce(0, 2, 1, OfAStep()), std::pair(2.0f, false));
  for (int step = 0; step < kSteps; ++step) EXPECT_EQ(all_reduce(2, 3, 100, OfAStep()), std::pair(2.0f, true));
  EXPECT_EQ(all_reduce(0, 3, 0, AtTheEnd()), std::pair(100.0f * kSteps, false));
  EXPECT_EQ(all_reduce(0, 3, 0, AtTheEnd()), std::pair(0.0f, false)) << "it is added once";
}

}  // namespace
}  // namespace ringway::e2e
