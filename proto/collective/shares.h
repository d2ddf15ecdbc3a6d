// Shares of a buffer in a view: of ranks (for the direct schedule), of sites (for the hierarchical one) and of rings
// (for several at once). Integers that add up to kWholeShare, so that every rank cuts the buffer alike. No shares of
// ranks: equal shares. No rings: one ring.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace ringway {

inline constexpr std::uint32_t kWholeShare = 65'536;

// A rank may have to hold early values of so many times the whole buffer, whatever its share.
inline constexpr std::uint32_t kReorderBuffersMax = 2;

inline constexpr std::size_t kRingsMax = 8;

// Largest share of one rank: values of all but two ranks may arrive early at it.
constexpr std::uint32_t ShareMax(std::size_t world_size) {
  if (world_size <= 2) return kWholeShare;
  return std::min(kWholeShare, kWholeShare * kReorderBuffersMax / static_cast<std::uint32_t>(world_size - 2));
}

// Likewise of one site in the hierarchical schedule, whose owners also hold early values of their own site.
constexpr std::uint32_t SiteShareMax(std::size_t sites) {
  return sites <= 3 ? kWholeShare : kWholeShare / static_cast<std::uint32_t>(sites - 2);
}

}  // namespace ringway
