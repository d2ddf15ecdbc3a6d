// Whose inputs are in an operation, and what they weigh, as all its ranks agree on before they read them
// (proto/PROTOCOL.md). A rank whose input is not in takes part in the schedule with zeros.
//
// Pure.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "proto/ids.h"

namespace ringway::collective {

struct InputSet {
  std::uint64_t absent = 0;     // ranks whose inputs are not in, as bits
  std::vector<double> weights;  // by rank; empty: 1 each

  bool Has(Rank rank) const { return (absent >> rank.value & 1) == 0; }
  double WeightOf(Rank rank) const { return !Has(rank) ? 0 : weights.empty() ? 1 : weights[rank.value]; }
  std::uint32_t Count(std::uint32_t world_size) const {
    return world_size - static_cast<std::uint32_t>(std::popcount(absent));
  }
  // The sum in the order of ranks: the same on all.
  double Total(std::uint32_t world_size) const {
    double total = 0;
    for (std::uint32_t rank = 0; rank < world_size; ++rank) total += WeightOf(Rank(rank));
    return total;
  }
};

// As many as a segment has bytes at most. They outlive all frames.
const std::byte* Zeros();

}  // namespace ringway::collective
