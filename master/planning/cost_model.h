// What an all-reduce costs by each schedule, and which is the cheapest at which size. Pure.
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

// In order of preference where two cost the same: those first that load the fewest paths at once.
inline constexpr std::array kAlgorithms = {Algorithm::kRing,   Algorithm::kTwoRings,        Algorithm::kRings,
                                           Algorithm::kDirect, Algorithm::kHierarchical,    Algorithm::kOneShot,
                                           Algorithm::kTree,   Algorithm::kHalvingDoubling, Algorithm::kNaive};

// ------------------------------------------------------------------------------------------------ textbook

struct UniformLink {
  double delay = 0;             // a, of one message
  double seconds_per_byte = 0;  // b
};

// All links alike, one message at a time, one step after the other:
//   ring               2(K-1)a + 2(K-1)/K Sb    and two or more rings alike: they share what a peer sends
//   direct             2a + 2(K-1)/K Sb         and hierarchical alike: without sites it is direct
//   one-shot           a + (K-1)Sb
//   tree               2 ceil(log2 K) (a + Sb)
//   halving-doubling   2 log2 K' a + 2(K'-1)/K' Sb, with K' the largest power of two up to K;
//                      and 2(a + Sb) more where K' < K, to fold the rest in
//   naive              2(K-1)(a + Sb)
// REQUIRES: peers >= 1, one of kAlgorithms. One peer: 0.
double TextbookSeconds(Algorithm algorithm, std::size_t peers, double bytes, const UniformLink& link);

// ------------------------------------------------------------------------------------------------ measured

struct CostOptions {
  std::uint64_t segment_bytes_max = 256 * 1024;
  std::uint64_t retained_bytes_max = 64 * 1024;  // above this the exchange of DONE is paid for
  std::uint64_t eager_bytes_max = 4 << 20;       // what a rank may be sent before it is ready; see Cheapest
  std::uint32_t root = 0;                        // of tree and naive
};

// What a table covers: the powers of two in between.
inline constexpr std::uint64_t kTableBytesMin = std::uint64_t{1} << 10;
inline constexpr std::uint64_t kTableBytesMax = std::uint64_t{1} << 30;

// Operations of up to `bytes_upto` bytes, and of more than the entry before says, go by this.
struct TableEntry {
  std::uint64_t bytes_upto = std::numeric_limits<std::uint64_t>::max();
  Algorithm algorithm = Algorithm::kRing;
  friend bool operator==(const TableEntry&, const TableEntry&) = default;
};

// Predicts from measured paths; WithAssumptions stands in for what is unknown. Schedules are cut-through: a segment
// goes on when it is combined, so delays hide behind bytes that are still under way. A chunk is cut as the segment grid
// does it: s is a quarter of it, but 16 KiB .. segment_bytes_max, and no more than the chunk. What a schedule moves
// loads paths, uplinks, downlinks and, between sites, the sites' uplinks; arrival(i,j) is the longest time that
// whatever lies between i and j needs for all that it carries, plus a(i,j).
//
//   ring       N = 2(K-1) steps of chunks S/K. A chunk takes c = S/K / B(i,j) on a link, its head reaches the next link
//              after h = a + s/B(i,j). In each step the head moves on, or waits a chunk's time for its link, so the
//              time is the longest walk around the ring: over all first links and all m < N links passed on the way,
//                  sum of h of the links passed + (N - m) max c of all links visited + a of the last.
//              All links alike: max(N c, (N - 1) h + c) + a, the larger of line and delays. One slow link: N c there.
//   rings      each with its share of the buffer and so much of every uplink and downlink, but paths of its own. The
//              slowest ring counts. Gains where paths are the limit.
//   two rings  as rings: S/2 each way round; with two peers they share the path, too.
//   direct     a chunk a peer, as its share says (S/K without), combined by its owner and sent to all. The longer of
//                  the last arrival with all load of both halves, and
//                  the longest chain: arrival at an owner with the first half's load, then its last segment to all.
//              All alike, r = (K-1)/K S/B: max(2r + a, r + 2a + (K-1)s/B). With chunks of one segment: the textbook's
//              2a + 2r.
//   hierarchical
//              as direct, with a chunk for each member of the largest site and each site; but of a site only the one
//              in charge of a chunk sends it to, and has it from, the one that combines it for all: a site sends
//              S 2(N-1)/N to the others, with N sites alike, where direct sends S 2(N-1)/N times its members
//   naive      as direct, with one owner (the root) of the one chunk S
//   tree       as naive, along the binomial tree over ranks counted from the root: rank r sends to r without its lowest
//              bit. A chain is as long as the tree is deep, each hop with a + s/B.
//   one-shot   the last arrival, with S on every path
//   halving-doubling
//              step by step, nothing hidden: both partners ready, then bytes/B + a. Partners differ in one bit of the
//              rank, the highest first; ranks from K' on hand S to the one K' lower before, and get S back after.
//   all        + the longest a(i,j) of all paths for DONE, if S > retained_bytes_max
//
// Not modelled: CPU, the lanes' slow start. One peer costs nothing.
// A value; const functions are safe from any thread.
class CostModel {
 public:
  // REQUIRES: `routes` are of these peers, segment_bytes_max > 0, root is a peer.
  CostModel(const PathMatrix& measured, Routes routes, const CostOptions& options = {});

  // Never falls as bytes grow. REQUIRES: one of kAlgorithms.
  double Seconds(Algorithm algorithm, std::uint64_t bytes) const;

  // In the order of kAlgorithms, each taking the place of the best so far if it is over 1% cheaper. Priced for an
  // operation alone. One-shot only up to eager_bytes_max: beyond, its buffers wait until their receivers are ready,
  // and these put aside all but one of them.
  Algorithm Cheapest(std::uint64_t bytes) const;

  // Cheapest() of the powers of two from kTableBytesMin to kTableBytesMax, each for the sizes down to the power below;
  // neighbours that agree are one entry. Sizes rise, the last is open. Never empty.
  std::vector<TableEntry> BuildTable() const;

 private:
  double AllReduceSeconds(Algorithm algorithm, double bytes) const;
  double RingsSeconds(const std::vector<WeightedRing>& rings, double bytes) const;
  // Of the direct schedule: each peer combines its share.
  std::vector<ReduceTree> OwnersTrees(double bytes) const;

  PathMatrix paths_;  // without unknowns
  Routes routes_;
  CostOptions options_;
  double longest_delay_ = 0;
};

}  // namespace ringway
