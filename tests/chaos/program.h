// The operations of each step of a chaos run: a pure function of the step, so that ranks agree without communication.
//
// Pure; any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "client/bench/check_values.h"

namespace ringway::chaos {

inline constexpr std::size_t kCountMax = 300'000;  // elements of one operation
inline constexpr std::size_t kBytesMax = kCountMax * 8;

struct PlannedOp {
  bench::Reduction reduction;
  std::size_t count = 0;
  std::uint32_t channel = 0;
  Quorum quorum = {};  // those with one go on without late ranks
  std::chrono::milliseconds grace{};
};

// All in flight at once, 1 to 4, in this order. Every third step has none with a quorum: its results name all members
// in rank order.
std::vector<PlannedOp> OpsOf(std::uint64_t step);

// The seed of the operation's inputs (bench::InputName).
inline std::uint64_t InputNumber(std::uint64_t step, std::uint32_t index) { return step * 16 + index; }

}  // namespace ringway::chaos
