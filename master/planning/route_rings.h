// Several concurrent rings that have no path in common, for groups whose paths are slower than the peers' uplinks: each
// ring adds the rate of its slowest path. Pure and deterministic.
//
//   strides  with K peers in ring order, i -> i + s mod K for every s coprime to K. No two of them share a path, and
//            for a prime K there can be no more. Ignores slow paths
//   greedy   the best ring (ring_order.h), then the best of the remaining paths, and so on
//
// The better of both is returned. An unmeasured uplink or downlink counts as fast as its best path (path_matrix.h), so
// with equal paths several rings are used only once the ends are known to be faster.
#pragma once

#include <cstdint>
#include <vector>

#include "master/planning/path_matrix.h"
#include "master/planning/routes.h"

namespace ringway {

enum class RingSearch : std::uint8_t {
  kStrides,  // strides only: takes no time
  kGreedy,   // both; up to kRingsMax times FindRing(), but only if paths are slower than the ends
};

// Returns rings with shares in proportion to the rates of their slowest links. `ring`: a permutation, the base of the
// strides. Empty (use the one ring) unless all rings together are over 10% faster than that: with fewer than three
// peers, and if the ends are the bottleneck.
std::vector<WeightedRing> FindRings(const PathMatrix& measured, const std::vector<std::uint32_t>& ring,
                                    RingSearch search);

}  // namespace ringway
