// The best ring of few peers, by dynamic programming over subsets (Held-Karp). Pure; part of ring_order.
//
// A ring is a Hamiltonian cycle from peer 0. For each subset of the others (a bit mask) and each end of a path through
// it, one entry says whether there is such a path, or what the cheapest completion back to peer 0 costs. With 16 peers:
// 2^15 subsets, 4 MB, some 7 million steps.
//
// The local search (ring_search.h) is no substitute: among 20,000 random WANs of eight hosts its ring was over 2%
// slower in one of 66, by the cost model, and the plan made with it in one of 290, by up to 16%.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "master/planning/ring_links.h"

namespace ringway {

inline constexpr std::size_t kExactPeersMax = 16;

// Returns whether there is a ring with all links of class `worst` or better. REQUIRES: 2 <= links.size() <=
// kExactPeersMax.
bool HasRing(const RingLinks& links, RateClass worst);

// Returns the cheapest of those rings, starting at peer 0; of equal ones the lowest permutation.
// REQUIRES: HasRing(links, worst).
std::vector<std::uint32_t> CheapestRing(const RingLinks& links, RateClass worst);

}  // namespace ringway
