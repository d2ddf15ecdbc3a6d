// The order of a ring, from what was measured between the peers. Pure and deterministic.
//
// A ring is as fast as its slowest link, so the best ring is the one
//   1. whose slowest link is fastest; rates that differ by less than 10% count as equal (classes, see ring_links.h);
//   2. of those, with the least total delay, in microseconds;
//   3. of those, with the fewest links between two sites;
//   4. of those, the lowest permutation.
// A link's rate is the least of its path, the sender's uplink and the receiver's downlink. Links are directed: a ring
// and its reverse may differ. Unknowns are taken as WithAssumptions says.
//
// Up to kExactPeersMax (16) peers this is exact: bisection finds the best class that admits a ring, then dynamic
// programming the cheapest ring of that class; some 35 ms and 4 MB at most. Beyond, the same bisection runs over a
// local search: good, not always best; some 20 ms for 64 peers, 0.2 s for 1,000, and a dozen searches of 4
// million steps.
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

// A ring and what it is like, unknowns assumed. With one peer: no links, all zero.
struct Ring {
  std::vector<std::uint32_t> order;  // a permutation of the peers that starts with 0; the last one sends to the first
  double rate = 0;                   // of the slowest link, bytes per second
  double delay_seconds = 0;          // once around
  RingLink bottleneck = {};          // the slowest link; of several the first on the ring
};

Ring FindRing(const PathMatrix& measured);

// `order`: a permutation of the peers; the result is turned to start with 0.
Ring MeasureRing(const PathMatrix& measured, std::span<const std::uint32_t> order);

// Whether a ring is so much better than the one in use that changing is worth it: over 10% by its slowest link, or,
// where that is not over 10% worse, over 10% (and 0.1 ms) by the delay once around. These are the two ends of an
// operation's time, large and small, so what gains less at both gains less at every size. Never true in both
// directions.
bool WorthSwitching(const PathMatrix& measured, std::span<const std::uint32_t> current,
                    std::span<const std::uint32_t> candidate);

}  // namespace ringway
