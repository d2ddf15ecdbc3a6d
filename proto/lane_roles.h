// How many lanes a pair has at first, and what each carries. Both ends derive the roles from the number of first lanes.
//
//   lanes  2..5  6..8  9..128  a single lane takes every size
//   small     1     2       3  the first ones; segments of at most kSmallLanePayloadBytes, which overtake large ones
//   large  the rest            every size
//
// Small segments take turns on the small lanes; between far hosts they fill the large ones, while those carry none.
// An operation takes at least half a round trip, so each of three small lanes is idle when its turn comes again: loss
// recovery on one, or bbr's PROBE_RTT (a window of four packets, every 10 s), does not delay the next operation.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "proto/clock.h"

namespace ringway {

inline constexpr std::uint32_t kLanesLoopback = 2;
// lane_scaler.h uses four of the eight large ones at first; more are opened if they help (mesh.h).
inline constexpr std::uint32_t kLanesRemote = 11;
inline constexpr std::uint32_t kLanesMax = 128;
inline constexpr std::uint32_t kSmallLanePayloadBytes = 64 << 10;

// Shorter round trips are within a host or a site.
inline constexpr Duration kNearby = std::chrono::milliseconds(1);

constexpr std::size_t SmallLanes(std::size_t lanes) {
  return lanes <= 1 ? 0 : std::clamp<std::size_t>(lanes / 3, 1, 3);
}

// Returns whether more lanes can be opened later, which must not change the roles of the first ones.
constexpr bool MayGrow(std::size_t first_lanes) { return SmallLanes(first_lanes) == SmallLanes(kLanesMax); }

// Divisor of the pair's TCP_NOTSENT_LOWAT budget for this lane: lanes opened later are many, and each gets less.
constexpr std::uint32_t SharersOf(std::uint32_t lane, std::uint32_t first_lanes) {
  return lane < first_lanes ? first_lanes : kLanesMax;
}

}  // namespace ringway
