// How far the result of a collective with a lossy codec can be from that of exact arithmetic.
//
// The unit is M, the largest magnitude of any contribution (per block where the codec has blocks). Each value that
// travels is rounded once: by the codec, within CodecInfo::error of the magnitude it may have there, and by its dtype
// when it is decoded; each sum is rounded in its dtype. With K ranks and e = relative_max, to first order:
//
//   ring      the j-th hop rounds a sum of j contributions, the owner that of all    e K (K + 1) / 2
//   direct    each other contribution once, and the result                           e (2K - 1)
//   one_shot  every contribution once, and the result                                e 2K
//
// an average a K-th of it; with weights or a quorum up to K times that, for one rank may weigh all. With stochastic
// rounding e is CodecInfo::error.at_random_max. Pure.
#pragma once

#include <cstdint>

#include "proto/collective/schedule.h"

namespace ringway::collective {

// The worst over all elements and ranks; 0 where nothing is lost. Infinite for products, which errors are multiplied
// with. Call it b. With L the largest magnitude that the codec and the dtype take (57344 of f16 with fp8), and l the
// least of the codec's and the dtype's normal numbers, it holds, and the result is finite, for
//
//   sum                    M (K + b) <= L     else a partial sum may overflow, or be taken for L
//   avg, min, max, copies  M (1 + b) <= L     partial sums of an average are scaled below that (kernels/reduce.h)
//   avg                    M / 2K >= l        a scaled input may be subnormal below
//   all others             M >= l
//
// per block where the codec has blocks. REQUIRES: `transfers` are the descriptor's, of `world_size` ranks.
double ErrorBound(const Transfers& transfers, const Descriptor& descriptor, std::uint32_t world_size);

}  // namespace ringway::collective
