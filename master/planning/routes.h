// Routes of a view: ring, shares and rings, the part of a plan beside the table of algorithms.
#pragma once

#include <cstdint>
#include <vector>

namespace ringway {

// Indices of a PathMatrix are ranks.
struct WeightedRing {
  std::vector<std::uint32_t> order;
  std::uint32_t share = 0;  // of the buffer (proto/collective/shares.h)
};

struct Routes {
  std::vector<std::uint32_t> ring;         // a permutation of the ranks, as Ring::order
  std::vector<std::uint32_t> shares = {};  // as DirectShares() has them
  // Site number of each rank, for hierarchical: ranks of one site share an uplink. Empty means the matrix's sites.
  std::vector<std::uint32_t> sites = {};
  std::vector<std::uint32_t> site_shares = {};  // by number; empty: equal shares
  std::vector<WeightedRing> rings = {};         // as FindRings() has them; empty: only `ring`
};

}  // namespace ringway
