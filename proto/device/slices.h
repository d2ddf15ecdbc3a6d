// How a copy between host and device is cut into slices: the first ones short, so that the network begins at once;
// later ones long enough for full speed; so many at most that a queue of commands bears them.
//
// Pure.
#pragma once

#include <algorithm>
#include <cstddef>

namespace ringway::device {

inline constexpr std::size_t kSliceBytesMin = std::size_t{256} << 10;
inline constexpr std::size_t kSliceBytes = std::size_t{4} << 20;
inline constexpr std::size_t kSliceCountMax = 128;

// Returns the end of the slice that begins at `begin`, of `bytes` in all. REQUIRES: begin < bytes.
constexpr std::size_t SliceEnd(std::size_t begin, std::size_t bytes) {
  const std::size_t whole = std::max(kSliceBytes, bytes / (kSliceCountMax / 2));
  const std::size_t size = std::clamp(begin, kSliceBytesMin, whole);  // as much again as there is
  return bytes - begin > size ? begin + size : bytes;
}

}  // namespace ringway::device
