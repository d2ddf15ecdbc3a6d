// A good ring of many peers, by local search. Pure and deterministic; part of ring_order.
//
// Starts from each peer in turn, while steps are left, with a nearest-neighbour ring, and improves it until no move
// helps. Moves are 2-opt (reverses a stretch, which changes the direction and so the weight of its links) and or-opt
// (moves a stretch of up to a dozen peers). The best ring is returned.
//
// A link's weight is the number of classes by which it misses the wanted one, then its cost, compared in this order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "master/planning/ring_links.h"

namespace ringway {

// Budget of one search: moves evaluated, and links examined while building. So a ring of over 1,000 peers is built but
// hardly improved.
inline constexpr std::size_t kSearchStepsMax = 4'000'000;

// Returns a ring that starts at peer 0, if possible with links of `wanted` or better. REQUIRES: size() >= 2.
std::vector<std::uint32_t> SearchRing(const RingLinks& links, RateClass wanted);

}  // namespace ringway
