// Predicted time of an all-reduce with each schedule, and the fastest for each size. Pure.
//
// Units: seconds, bytes, bytes per second. K peers; S bytes an operation; a(i,j), B(i,j): one-way delay and LinkRate of
// a path; s: the bytes of a segment.
#pragma once

#include <ringway/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "master/planning/cost_flows.h"
#include "master/planning/path_matrix.h"
#include "master/planning/routes.h"

namespace ringway {

// In order of preference for ties: schedules that load fewer paths at once come first.
inline constexpr std::array kAlgorithms = {Algorithm::kRing,   Algorithm::kTwoRings,        Algorithm::kRings,
                                           Algorithm::kDirect, Algorithm::kHierarchical,    Algorithm::kOneShot,
                                           Algorithm::kTree,   Algorithm::kHalvingDoubling, Algorithm::kNaive};

// ------------------------------------------------------------------------------------------------ textbook

struct UniformLink {
  double delay = 0;             // a, of one message
  double seconds_per_byte = 0;  // b
};

// Equal links, one message at a time, step-synchronous:
//   ring               2(K-1)a + 2(K-1)/K Sb    two_rings and rings are the same: they share a peer's uplink
//   direct             2a + 2(K-1)/K Sb         hierarchical is the same: without sites it is direct
//   one-shot           a + (K-1)Sb
//   tree               2 ceil(log2 K) (a + Sb)
//   halving-doubling   2 log2 K' a + 2(K'-1)/K' Sb, with K' the largest power of two up to K;
//                      plus 2(a + Sb) if K' < K, to fold in the rest
//   naive              2(K-1)(a + Sb)
// REQUIRES: peers >= 1, one of kAlgorithms. One peer: 0.
double TextbookSeconds(Algorithm algorithm, std::size_t peers, double bytes, const UniformLink& link);

// ------------------------------------------------------------------------------------------------ measured

struct CostOptions {
  std::uint64_t segment_bytes_max = 256 * 1024;
  std::uint64_t retained_bytes_max = 64 * 1024;  // above this the exchange of DONE is added
  std::uint64_t eager_bytes_max = 4 << 20;       // bytes that may be sent to a rank before it is READY; see Cheapest
  std::uint32_t root = 0;                        // of tree and naive
};

// Range of a table, in powers of two.
inline constexpr std::uint64_t kTableBytesMin = std::uint64_t{1} << 10;
inline constexpr std::uint64_t kTableBytesMax = std::uint64_t{1} << 30;

// For operations of at most `bytes_upto` bytes, and more than the previous entry's.
struct TableEntry {
  std::uint64_t bytes_upto = std::numeric_limits<std::uint64_t>::max();
  Algorithm algorithm = Algorithm::kRing;
  friend bool operator==(const TableEntry&, const TableEntry&) = default;
};

// Predicts from measured paths; unknowns are filled in by WithAssumptions. Schedules are cut-through: a segment is
// forwarded when it is reduced, so delays overlap with transmission. s follows the segment grid: a quarter of the
// chunk, within 16 KiB .. segment_bytes_max, at most the chunk. Transfers load paths, uplinks, downlinks and, between
// sites, the sites' uplinks; arrival(i,j) is the longest time that any of these on the way from i to j needs for its
// load, plus a(i,j).
//
//   ring       N = 2(K-1) steps of chunks S/K. A chunk takes c = S/K / B(i,j) on a link, its head reaches the next link
//              after h = a + s/B(i,j). In each step the head moves on, or waits one chunk time for its link, so the
//              time is the longest walk around the ring: over all first links and all m < N links passed on the way,
//                  sum of h of the links passed + (N - m) max c of all links visited + a of the last.
//              Equal links: max(N c, (N - 1) h + c) + a, the larger of bandwidth and delay. One slow link: N c there.
//   rings      each has its share of the buffer, and the same share of every uplink and downlink, but paths of its own.
//              The slowest ring counts. Gains if paths are the bottleneck.
//   two_rings  as rings: S/2 in each direction; with two peers they share the path, too.
//   direct     a chunk a peer, by its share (S/K by default), reduced by its owner and sent to all. The longer of
//                  the last arrival with the load of both halves, and
//                  the longest chain: arrival at an owner with the first half's load, then its last segment to all.
//              Equal links, r = (K-1)/K S/B: max(2r + a, r + 2a + (K-1)s/B). With chunks of one segment: the textbook's
//              2a + 2r.
//   hierarchical
//              as direct, with a chunk for each member of the largest site and each site; but only the chunk's leader
//              in a site exchanges it with the owner: with N equal sites a site sends S 2(N-1)/N to others, where
//              direct sends that times its members
//   naive      as direct, with one owner (the root) of the one chunk S
//   tree       as naive, along the binomial tree over ranks counted from the root: rank r sends to r without its lowest
//              bit. A chain is as long as the tree is deep, each hop with a + s/B.
//   one_shot   the last arrival, with S on every path
//   halving_doubling
//              step-synchronous: both partners ready, then bytes/B + a. Partners differ in one bit of the rank, the
//              highest first; ranks from K' on send S to the rank K' lower before, and get S back after.
//   all        + the longest a(i,j) of all paths for DONE, if S > retained_bytes_max
//
// Not modelled: CPU, slow start. One peer costs nothing. A value; const functions are safe from any thread.
class CostModel {
 public:
  // REQUIRES: `routes` are for these peers, segment_bytes_max > 0, root is a peer.
  CostModel(const PathMatrix& measured, Routes routes, const CostOptions& options = {});

  // Monotonic in `bytes`. REQUIRES: one of kAlgorithms.
  double Seconds(Algorithm algorithm, std::uint64_t bytes) const;

  // In the order of kAlgorithms, each replaces the best so far if it is over 1% cheaper. For a lone operation. One_shot
  // only up to eager_bytes_max: larger buffers wait until their receivers are READY, and these hold all but one of them
  // as early values.
  Algorithm Cheapest(std::uint64_t bytes) const;

  // Cheapest() of each power of two from kTableBytesMin to kTableBytesMax, for all sizes down to the previous power;
  // equal neighbours are merged. Ascending, the last entry is open. Never empty.
  std::vector<TableEntry> BuildTable() const;

 private:
  double AllReduceSeconds(Algorithm algorithm, double bytes) const;
  double RingsSeconds(const std::vector<WeightedRing>& rings, double bytes) const;
  // For the direct schedule: each peer owns its share.
  std::vector<ReduceTree> OwnersTrees(double bytes) const;

  PathMatrix paths_;  // without unknowns
  Routes routes_;
  CostOptions options_;
  double longest_delay_ = 0;
};

}  // namespace ringway
