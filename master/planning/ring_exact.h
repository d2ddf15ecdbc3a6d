// The best ring of few peers, by dynamic programming over the subsets of peers. Pure; a part of ring_order.
//
// A ring is a Hamiltonian cycle. Peer 0 is its start; for each set of the others (one bit a peer) and each end of a
// path through that set, one entry says whether there is such a path, or what the rest of the way back to peer 0 costs.
// With 16 peers: 2^15 sets, 4 MB, some 7 million steps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "master/planning/ring_links.h"

namespace ringway {

inline constexpr std::size_t kExactPeersMax = 16;

// Whether there is a ring whose links are all of `worst` or better. REQUIRES: 2 <= links.size() <= kExactPeersMax.
bool HasRing(const RingLinks& links, RateClass worst);

// Of those rings the one of the least cost; of equal ones the lowest permutation. It starts at peer 0.
// REQUIRES: HasRing(links, worst).
std::vector<std::uint32_t> CheapestRing(const RingLinks& links, RateClass worst);

}  // namespace ringway
