#include "client/examples/train_text/optimizer.h"

#include <cmath>

namespace train_text {
namespace {

constexpr float kBeta1 = 0.9F;
constexpr float kBeta2 = 0.99F;
constexpr float kEpsilon = 1e-8F;
constexpr float kWeightDecay = 0.01F;
constexpr double kNormMax = 1.0;

// base^exponent by squaring: std::pow may round differently on another machine.
double Power(double base, std::uint64_t exponent) {
  double result = 1;
  for (; exponent != 0; exponent >>= 1, base *= base) {
    if ((exponent & 1U) != 0) result *= base;
  }
  return result;
}

float ClipFactor(const float* gradient, std::size_t count) {
  double sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum += static_cast<double>(gradient[i]) * static_cast<double>(gradient[i]);
  const double norm = std::sqrt(sum);
  return norm > kNormMax ? static_cast<float>(kNormMax / norm) : 1.0F;
}

}  // namespace

void AdamWStep(const AdamWState& state, const float* gradient, std::uint64_t step, double learning_rate) {
  const float clip = ClipFactor(gradient, state.count);
  const auto rate = static_cast<float>(learning_rate / (1 - Power(kBeta1, step)));
  const auto second_scale = static_cast<float>(1 / (1 - Power(kBeta2, step)));
  const auto decay = static_cast<float>(1 - learning_rate * static_cast<double>(kWeightDecay));
  float* const parameters = state.parameters;
  float* const first = state.first_moment;
  float* const second = state.second_moment;
  for (std::size_t i = 0; i < state.count; ++i) {
    const float slope = gradient[i] * clip;
    first[i] = kBeta1 * first[i] + (1 - kBeta1) * slope;
    second[i] = kBeta2 * second[i] + (1 - kBeta2) * slope * slope;
    parameters[i] = parameters[i] * decay - rate * first[i] / (std::sqrt(second[i] * second_scale) + kEpsilon);
  }
}

}  // namespace train_text
