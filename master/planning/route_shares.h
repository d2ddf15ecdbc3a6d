// How much of a buffer each peer combines in the direct schedule, so that the busiest of what it loads has the least to
// do. Pure and deterministic.
//
// K peers; w(i): the part of the buffer that peer i owns. It gets its part of all others' and gives theirs away, then
// the other way round, so in parts of the buffer
//
//   uplink and downlink of i   carry 1 + (K-2) w(i)
//   path i -> j                carries w(i) + w(j)
//   way out of a site with M of the peers, who own W together: carries M (1-W) + (K-M) W
//
// A slow peer owns little, and sends once what others send more often; paths between peers that own nothing are not
// used. Where ends alone are the limit no choice takes less than the longer of one buffer on the slowest end and
// 2(K-1) buffers on all together; equal parts take 2(K-1)/K on the slowest.
//
// Parts move from the peer with the busiest of these to the one with the idlest, large ones first, as long as that
// helps both. Good, not always best.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "master/planning/path_matrix.h"

namespace ringway {

// More peers get equal shares: no view has as many.
inline constexpr std::size_t kSharesPeersMax = 64;

// By peer, as proto/collective/shares.h has them. Empty, which stands for equal ones, unless the busiest has over 10%
// less to do than with equal shares. About 1 ms for 64 peers of arbitrary rates.
std::vector<std::uint32_t> DirectShares(const PathMatrix& measured);

// In units of a whole buffer: what the busiest takes, in seconds a byte. REQUIRES: `paths` has no unknowns, a share for
// each of two peers or more.
double BusiestSecondsPerByte(const PathMatrix& paths, const std::vector<std::uint32_t>& shares);

}  // namespace ringway
