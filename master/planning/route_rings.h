// Several rings at once that share no path, for where paths are slower than the peers' ends: each ring brings the rate
// of its own slowest path. Pure and deterministic.
//
// Two ways to find them, of which the better counts:
//   strides   with K peers in ring order, i -> i + s mod K for every s without a common divisor with K. No two of them
//             have a path in common, and they are the most there are where K is a prime; slow paths are not minded.
//   greedy    the best ring of all (ring_order.h), then the best of the paths that are left, and so on.
//
// An end that was not measured counts as fast as its best path (path_matrix.h), so where all paths are alike several
// rings are used only once it is known that the ends are faster.
#pragma once

#include <cstdint>
#include <vector>

#include "master/planning/path_matrix.h"
#include "master/planning/routes.h"

namespace ringway {

enum class RingSearch : std::uint8_t {
  kStrides,  // takes no time
  kGreedy,   // of both; up to kRingsMax times as long as FindRing(), but only where paths are slower than ends
};

// Rings with shares of the buffer as their slowest links are fast among each other. `ring`: a permutation, the first of
// the strides. Empty, which stands for the one ring, where all rings together are not over 10% faster than it: with
// fewer than three peers, and where ends are the limit.
std::vector<WeightedRing> FindRings(const PathMatrix& measured, const std::vector<std::uint32_t>& ring,
                                    RingSearch search);

}  // namespace ringway
