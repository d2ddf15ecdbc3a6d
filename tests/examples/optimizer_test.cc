#include "client/examples/train_text/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace train_text {
namespace {

TEST(AdamWTest, FirstStepMovesByTheLearningRateAgainstTheSign) {
  std::vector<float> parameters = {0, 0, 0};
  std::vector<float> first(3);
  std::vector<float> second(3);
  const std::vector<float> gradient = {0.5F, -0.25F, 0};
  AdamWStep({parameters.data(), first.data(), second.data(), 3}, gradient.data(), 1, 0.01);
  EXPECT_NEAR(parameters[0], -0.01, 1e-6);
  EXPECT_NEAR(parameters[1], 0.01, 1e-6);
  EXPECT_EQ(parameters[2], 0);
}

TEST(AdamWTest, LongGradientsAreClippedToNormOne) {
  std::vector<float> parameters(2);
  std::vector<float> first(2);
  std::vector<float> second(2);
  const std::vector<float> gradient = {300, 400};
  AdamWStep({parameters.data(), first.data(), second.data(), 2}, gradient.data(), 1, 0.01);
  EXPECT_NEAR(first[0], 0.1 * 0.6, 1e-6);
  EXPECT_NEAR(first[1], 0.1 * 0.8, 1e-6);
}

TEST(AdamWTest, FindsTheMinimumOfAParabola) {
  std::vector<float> parameters = {3};
  std::vector<float> first(1);
  std::vector<float> second(1);
  for (std::uint64_t step = 1; step <= 2000; ++step) {
    const float gradient = 2 * (parameters[0] - 1);
    AdamWStep({parameters.data(), first.data(), second.data(), 1}, &gradient, step, 0.01);
  }
  EXPECT_NEAR(parameters[0], 1, 0.01);
}

}  // namespace
}  // namespace train_text
