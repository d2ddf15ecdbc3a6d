#include "client/examples/train_text/model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace train_text {
namespace {

static_assert(sizeof(Real) == sizeof(double), "this test needs the double build of the model");

constexpr Shape kSmall = {.context = 3, .embedding = 5, .hidden1 = 21, .hidden2 = 18};

std::vector<std::uint8_t> SomeText() {
  std::vector<std::uint8_t> text;
  const std::string line = "The quick brown fox jumps over the lazy dog; pack my box with five dozen liquor jugs.\n";
  for (const char character : line + line) text.push_back(SymbolOf(character));
  return text;
}

Batch SomeBatch(const Model& model, std::size_t size, std::uint64_t seed) {
  const std::vector<std::uint8_t> text = SomeText();
  Random random(seed);
  Batch batch;
  DrawBatch(text, {0, text.size()}, model.context(), size, &random, &batch);
  return batch;
}

std::vector<Real> InitialParameters(const Model& model, std::uint64_t seed) {
  std::vector<Real> parameters(model.parameter_count());
  model.Initialize(seed, parameters.data());
  return parameters;
}

void IgnoreSlices(std::size_t /*offset*/, std::size_t /*count*/) {}

TEST(ModelTest, GradientEqualsFiniteDifferences) {
  Model model(kSmall);
  std::vector<Real> parameters = InitialParameters(model, 7);
  const Batch batch = SomeBatch(model, 7, 3);  // no width is a multiple of the rows that are multiplied at once
  std::vector<Real> gradient(model.parameter_count());
  model.LossAndGradient(parameters.data(), batch, gradient.data(), IgnoreSlices);
  std::vector<Real> ignored(model.parameter_count());
  constexpr double kStep = 1e-6;
  for (std::size_t i = 0; i < parameters.size(); i += 3) {
    const Real before = parameters[i];
    parameters[i] = before + kStep;
    const double above = model.LossAndGradient(parameters.data(), batch, ignored.data(), IgnoreSlices);
    parameters[i] = before - kStep;
    const double below = model.LossAndGradient(parameters.data(), batch, ignored.data(), IgnoreSlices);
    parameters[i] = before;
    ASSERT_NEAR((above - below) / (2 * kStep), gradient[i], 1e-7 + 1e-5 * std::abs(gradient[i])) << "parameter " << i;
  }
}

TEST(ModelTest, GradientOfABatchEqualsMeanOfSingleExamples) {
  Model model({.context = 4, .embedding = 8, .hidden1 = 32, .hidden2 = 16});
  const std::vector<Real> parameters = InitialParameters(model, 7);
  const Batch batch = SomeBatch(model, 8, 5);
  std::vector<Real> gradient(model.parameter_count());
  const double loss = model.LossAndGradient(parameters.data(), batch, gradient.data(), IgnoreSlices);
  double mean_loss = 0;
  std::vector<Real> mean(model.parameter_count());
  for (std::size_t i = 0; i < batch.size; ++i) {
    const auto* context = batch.contexts.data() + i * model.context();
    const Batch single = {1, {context, context + model.context()}, {batch.targets[i]}};
    std::vector<Real> part(model.parameter_count());
    mean_loss += model.LossAndGradient(parameters.data(), single, part.data(), IgnoreSlices) / 8;
    for (std::size_t j = 0; j < part.size(); ++j) mean[j] += part[j] / 8;
  }
  EXPECT_NEAR(loss, mean_loss, 1e-12);
  for (std::size_t j = 0; j < mean.size(); ++j) ASSERT_NEAR(gradient[j], mean[j], 1e-12) << "parameter " << j;
}

TEST(ModelTest, SlicesCoverTheGradientOnceAndAreFinalWhenAnnounced) {
  Model model(kSmall);
  const std::vector<Real> parameters = InitialParameters(model, 1);
  const Batch batch = SomeBatch(model, 4, 1);
  std::vector<Real> gradient(model.parameter_count());
  std::vector<int> covered(model.parameter_count());
  std::vector<Real> announced(model.parameter_count());
  model.LossAndGradient(parameters.data(), batch, gradient.data(), [&](std::size_t offset, std::size_t count) {
    for (std::size_t i = offset; i < offset + count; ++i) {
      ++covered[i];
      announced[i] = gradient[i];
    }
  });
  for (std::size_t i = 0; i < covered.size(); ++i) ASSERT_EQ(covered[i], 1) << "parameter " << i;
  EXPECT_EQ(announced, gradient);
}

TEST(ModelTest, SameSeedGivesSameParametersAndSameGradient) {
  Model first(kSmall);
  Model second(kSmall);
  const std::vector<Real> parameters = InitialParameters(first, 42);
  EXPECT_EQ(parameters, InitialParameters(second, 42));
  EXPECT_NE(parameters, InitialParameters(second, 43));
  std::vector<Real> first_gradient(first.parameter_count());
  std::vector<Real> second_gradient(second.parameter_count(), 9);  // whatever was there is overwritten
  first.LossAndGradient(parameters.data(), SomeBatch(first, 5, 2), first_gradient.data(), IgnoreSlices);
  second.LossAndGradient(parameters.data(), SomeBatch(second, 5, 2), second_gradient.data(), IgnoreSlices);
  EXPECT_EQ(first_gradient, second_gradient);
}

TEST(ModelTest, GradientDescentLowersTheLossOfItsBatch) {
  Model model(kSmall);
  std::vector<Real> parameters = InitialParameters(model, 5);
  const Batch batch = SomeBatch(model, 16, 4);
  std::vector<Real> gradient(model.parameter_count());
  const double before = model.LossAndGradient(parameters.data(), batch, gradient.data(), IgnoreSlices);
  double after = before;
  for (int step = 0; step < 100; ++step) {
    for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i] -= 0.1 * gradient[i];
    after = model.LossAndGradient(parameters.data(), batch, gradient.data(), IgnoreSlices);
  }
  EXPECT_LT(before, std::log(static_cast<double>(kSymbolCount)) + 1);  // it starts near a uniform guess
  EXPECT_LT(after, before / 2);
}

TEST(ModelTest, SampleHasTheLengthAskedForAndFollowsItsSeed) {
  Model model(kSmall);
  const std::vector<Real> parameters = InitialParameters(model, 5);
  const std::string sample = model.Sample(parameters.data(), "The ", 50, 1);
  EXPECT_EQ(sample.size(), 50U);
  EXPECT_EQ(sample, model.Sample(parameters.data(), "The ", 50, 1));
  EXPECT_NE(sample, model.Sample(parameters.data(), "The ", 50, 2));
  EXPECT_EQ(model.Sample(parameters.data(), "The ", 0, 1), "");
}

TEST(ModelTest, SampleIsNotBlankThoughTheModelKnowsNothingElse) {
  Model model(kSmall);
  std::vector<Real> parameters = InitialParameters(model, 5);
  Real* const last_bias = parameters.data() + parameters.size() - kSymbolCount;
  last_bias[SymbolOf(' ')] = last_bias[SymbolOf('\n')] = 1e6;
  const std::string sample = model.Sample(parameters.data(), "The ", 300, 1);
  EXPECT_EQ(sample.size(), 300U);
  const auto blanks = std::count_if(sample.begin(), sample.end(), [](char c) { return c == ' ' || c == '\n'; });
  EXPECT_LE(blanks, 200) << sample;
  EXPECT_GE(blanks, 150) << "the prompt was no help to it";
}

}  // namespace
}  // namespace train_text
