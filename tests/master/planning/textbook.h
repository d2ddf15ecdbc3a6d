// Textbook time of an all-reduce with each schedule, which the cost model of plans is compared with. Pure.
//
// Units: seconds, bytes. K peers; S bytes an operation.
#pragma once

#include <ringway/types.h>

#include <cstddef>

namespace ringway {

struct UniformLink {
  double delay = 0;             // a, of one message
  double seconds_per_byte = 0;  // b
};

// Returns the time over equal links, with one message at a time and synchronous steps:
//   ring               2(K-1)a + 2(K-1)/K Sb    two_rings and rings are the same: they share a peer's uplink
//   direct             2a + 2(K-1)/K Sb         hierarchical is the same: without sites it is direct
//   one-shot           a + (K-1)Sb
//   tree               2 ceil(log2 K) (a + Sb)
//   halving-doubling   2 log2 K' a + 2(K'-1)/K' Sb, with K' the largest power of two up to K;
//                      plus 2(a + Sb) if K' < K, to fold in the rest
//   naive              2(K-1)(a + Sb)
// One peer takes 0 s. REQUIRES: peers >= 1, one of kAlgorithms.
double TextbookSeconds(Algorithm algorithm, std::size_t peers, double bytes, const UniformLink& link);

}  // namespace ringway
