// How far the result of a collective with a lossy codec can be from that of exact arithmetic.
//
// In units of M, the largest magnitude of any contribution (per block where the codec has blocks). Each value that
// travels is rounded once: by the codec, within CodecInfo::error of the magnitude it may have there, and by its dtype
// when it is decoded; each sum is rounded in its dtype. With K ranks and e = relative_max, to first order:
//
//   ring      the j-th hop rounds a sum of j contributions, the owner that of all    e K (K + 1) / 2
//   direct    each other contribution once, and the result                           e (2K - 1)
//   one_shot  every contribution once, and the result                                e 2K
//
// an average a K-th of it. With stochastic rounding e is CodecInfo::error.at_random_max. Pure.
#pragma once

#include <cstdint>

#include "proto/collective/schedule.h"

namespace ringway::collective {

// The worst over all elements and ranks; 0 where nothing is lost. Infinite for products, which errors are multiplied
// with. Holds where the magnitudes of blocks are within the codec's limits and are normal numbers of the dtype, of f16
// up to 57344 with fp8. REQUIRES: `transfers` are the descriptor's, of `world_size` ranks.
double ErrorBound(const Transfers& transfers, const Descriptor& descriptor, std::uint32_t world_size);

}  // namespace ringway::collective
