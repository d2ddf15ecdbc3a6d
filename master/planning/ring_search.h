// A good ring of many peers, by local search. Pure and deterministic; a part of ring_order.
//
// From each peer in turn, as long as the steps last: a ring is built by going to the nearest neighbour, then improved
// until no move helps. A move turns a stretch of the ring around (2-opt; all its links change direction, and with it
// their weights), or takes up to a dozen peers out and puts them between two others (or-opt). The best ring wins.
//
// A link's weight is by how many classes it misses the wanted one, then its cost, compared in this order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "master/planning/ring_links.h"

namespace ringway {

// Moves weighed in one search, together with links looked at while building. A ring of more than some 1,000 peers is
// therefore built but hardly improved.
inline constexpr std::size_t kSearchStepsMax = 4'000'000;

// A ring that starts at peer 0, with links of `wanted` or better where the search finds such. REQUIRES: size() >= 2.
std::vector<std::uint32_t> SearchRing(const RingLinks& links, RateClass wanted);

}  // namespace ringway
