// The ring order, from measured paths. Pure and deterministic.
//
// A ring is as fast as its slowest link, so the best ring is the one
//   1. whose slowest link is fastest; rates that differ by less than 10% count as equal (classes, see ring_links.h);
//   2. of those, with the least total delay, in microseconds;
//   3. of those, with the fewest links between two sites;
//   4. of those, the lowest permutation.
// A link's rate is the minimum of its path, the sender's uplink and the receiver's downlink. Links are directed: a ring
// and its reverse may differ. Unknowns are filled in by WithAssumptions.
//
//   peers               method                                                  time
//   <= kExactPeersMax   exact: bisection finds the best class with a ring, then  at most 35 ms, 4 MB
//                       dynamic programming the cheapest ring of that class
//   more                the same bisection over a local search: good, not        20 ms for 64 peers, 0.2 s for 1,000;
//                       always best                                              a dozen searches of 4 million steps
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "master/planning/path_matrix.h"

namespace ringway {

struct RingLink {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  friend bool operator==(const RingLink&, const RingLink&) = default;
};

// A ring and its properties, with unknowns filled in. With one peer: no links, all zero.
struct Ring {
  std::vector<std::uint32_t> order;  // a permutation of the peers that starts with 0; the last one sends to the first
  double rate = 0;                   // of the slowest link, bytes per second
  double delay_seconds = 0;          // once around
  RingLink bottleneck = {};          // the slowest link; of several the first on the ring
};

Ring FindRing(const PathMatrix& measured);

// `order`: a permutation of the peers; the result is rotated to start with 0.
Ring MeasureRing(const PathMatrix& measured, std::span<const std::uint32_t> order);

// Hysteresis: returns whether the candidate is worth a change. Its slowest link is over 10% faster, or, if that is not
// over 10% slower, its total delay is over 10% (and 0.1 ms) shorter. These determine large and small operations, so a
// ring that gains less in both gains less at every size. Never true in both directions.
bool WorthSwitching(const PathMatrix& measured, std::span<const std::uint32_t> current,
                    std::span<const std::uint32_t> candidate);

}  // namespace ringway
