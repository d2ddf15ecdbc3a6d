// Shares of a buffer, as a view gives them to ranks (for the direct schedule) and to rings (for several at once):
// integers, kWholeShare in all, so that every rank cuts the buffer alike. No shares of ranks stand for equal ones, no
// rings for one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace ringway {

inline constexpr std::uint32_t kWholeShare = 65'536;

// A rank may have to put aside so many times the bytes of the whole buffer, whatever its share.
inline constexpr std::uint32_t kAsideBuffersMax = 2;

inline constexpr std::size_t kRingsMax = 8;

// The most that one rank may have: others' values for all but two of the ranks may wait at it.
constexpr std::uint32_t ShareMax(std::size_t world_size) {
  if (world_size <= 2) return kWholeShare;
  return std::min(kWholeShare, kWholeShare * kAsideBuffersMax / static_cast<std::uint32_t>(world_size - 2));
}

}  // namespace ringway
