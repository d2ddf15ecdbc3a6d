// AdamW. Equal inputs must yield equal results on every rank, whatever its processor: optimizer.cc is compiled without
// fused multiply-adds and uses only exactly rounded operations.
#pragma once

#include <cstddef>
#include <cstdint>

namespace train_text {

// All arrays hold `count` floats and belong to the caller.
struct AdamWState {
  float* parameters;
  float* first_moment;
  float* second_moment;
  std::size_t count;
};

// Step number `step` (from 1) of AdamW (Loshchilov and Hutter), with the gradient's norm clipped to 1.
void AdamWStep(const AdamWState& state, const float* gradient, std::uint64_t step, double learning_rate);

}  // namespace train_text
