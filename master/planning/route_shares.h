// Shares of the buffer that each peer owns in the direct schedule, chosen to minimise the load of the busiest path,
// uplink or downlink. Pure and deterministic.
//
// K peers; w(i): share of peer i. It receives its share from all others and sends them theirs, then the reverse, so in
// units of the buffer, for hosts and sites with M of the peers, which own W together
//
//   uplink and downlink of a host        M (1-W) + (K-M) W; of a lone peer 1 + (K-2) w
//   uplink of a site                     the same
//   path from one host to another        M W' + M' W
//
// A slow peer owns little, and sends its own input once where others send more; paths between peers that own nothing
// are not used. If only uplinks and downlinks limit, the lower bound is the longer of one buffer on the slowest end and
// 2(K-1) buffers on all ends together; equal shares take 2(K-1)/K on the slowest.
//
// Local search: moves shares from the peer with the busiest resource to the one with the least busy, large steps first,
// while that helps both. Good, not always best.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "master/planning/path_matrix.h"

namespace ringway {

// Beyond this shares are equal; no view has as many peers.
inline constexpr std::size_t kSharesPeersMax = 64;

// Returns shares by peer, as in proto/collective/shares.h. Empty (equal shares) unless the maximum load is over 10%
// less than with equal shares. About 1 ms for 64 peers of arbitrary rates.
std::vector<std::uint32_t> DirectShares(const PathMatrix& measured);
// The same, with at most `share_max` each.
std::vector<std::uint32_t> DirectShares(const PathMatrix& measured, std::uint32_t share_max);

// Time on the busiest resource, in seconds per byte of the buffer. REQUIRES: `paths` has no unknowns, a share for each
// of at least two peers.
double BusiestSecondsPerByte(const PathMatrix& paths, const std::vector<std::uint32_t>& shares);

}  // namespace ringway
