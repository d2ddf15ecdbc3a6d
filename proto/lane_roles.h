// How many lanes a pair has at first, and which of them carry what. Both ends know it from that count alone.
//
//   lanes  2..5  6..8  9..128  a lone lane takes every size
//   small     1     2       3  the first ones; segments of at most kSmallLanePayloadBytes, which overtake large ones
//   large  the rest            every size
//
// Small segments take the small lanes in turn; far away the large ones, while those have nothing large to carry. An
// operation takes half a round trip at least, so each of three has nothing on its way when its turn comes again: what
// the one before lost, or what congestion control holds back (bbr allows four packets while it looks for the shortest
// round trip, every 10 s), does not delay the next.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "proto/clock.h"

namespace ringway {

inline constexpr std::uint32_t kLanesLoopback = 2;
// lane_scaler.h starts with four of eight large ones; where more help they are opened (mesh.h).
inline constexpr std::uint32_t kLanesRemote = 11;
inline constexpr std::uint32_t kLanesMax = 128;
inline constexpr std::uint32_t kSmallLanePayloadBytes = 64 << 10;

// Shorter round trips are within a host or a site.
inline constexpr Duration kNearby = std::chrono::milliseconds(1);

constexpr std::size_t SmallLanes(std::size_t lanes) {
  return lanes <= 1 ? 0 : std::clamp<std::size_t>(lanes / 3, 1, 3);
}

// Whether more lanes can come later: they must not change what those do that there are.
constexpr bool MayGrow(std::size_t first_lanes) { return SmallLanes(first_lanes) == SmallLanes(kLanesMax); }

// How many lanes share what a pair may have unsent in its sockets: those that came later are many, and each takes less.
constexpr std::uint32_t SharersOf(std::uint32_t lane, std::uint32_t first_lanes) {
  return lane < first_lanes ? first_lanes : kLanesMax;
}

}  // namespace ringway
