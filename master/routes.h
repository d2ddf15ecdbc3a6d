// The ways between the members of a view, as its ranks use them: what a plan says beside the table of algorithms.
#pragma once

#include <cstdint>
#include <vector>

namespace ringway {

// Indices of a PathMatrix are ranks.
struct Routes {
  std::vector<std::uint32_t> ring;         // a permutation of the ranks, as Ring::order
  std::vector<std::uint32_t> shares = {};  // as DirectShares() has them
};

}  // namespace ringway
