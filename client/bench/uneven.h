// Counts by rank for the collectives that take them, of a buffer of `total` elements at each rank: rank r's share is
// r + 1 of 1 + .. + K, and two ranks exchange the share of the sum of their ranks.
//
// Pure; any thread.
#pragma once

#include <ringway/types.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ringway::bench {

// One after the other, `total` in all. REQUIRES: share < world.
inline Part ShareOf(std::size_t total, std::uint32_t world, std::uint32_t share) {
  const std::size_t whole = std::size_t{world} * (world + 1) / 2;
  const auto begin = [&](std::size_t of) {
    const std::size_t before = of * (of + 1) / 2;
    return total / whole * before + total % whole * before / whole;
  };
  return {begin(share), begin(share + 1) - begin(share)};
}

inline std::vector<std::size_t> SharesOf(std::size_t total, std::uint32_t world) {
  std::vector<std::size_t> counts;
  for (std::uint32_t rank = 0; rank < world; ++rank) counts.push_back(ShareOf(total, world, rank).count);
  return counts;
}

// Returns the counts that `rank` sends to each, and receives from each: `total` in all.
inline std::vector<std::size_t> ExchangedBy(std::size_t total, std::uint32_t world, std::uint32_t rank) {
  std::vector<std::size_t> counts;
  for (std::uint32_t other = 0; other < world; ++other)
    counts.push_back(ShareOf(total, world, (rank + other) % world).count);
  return counts;
}

}  // namespace ringway::bench
