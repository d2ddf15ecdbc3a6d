// Schedules: who sends which chunk to whom, as a contribution to its sum or as the finished chunk, to be copied. Pure
// functions of the collective, the algorithm and the ranks' order; the executor runs them all.
//
// A reduce-scatter is the first half of an all-reduce whose chunk r is finished by rank r, an all-gather the second
// half. A broadcast is copies from the root, a reduce the same ways back, as sums; gather, scatter and all-to-all send
// each chunk from its one holder to its one receiver:
//
//                    broadcast, reduce
//   ring             (K-1) a + S b            from neighbour to neighbour, cut through
//   direct           2 a + S b                a chunk to or from each other rank, which has it from or for the rest
//   tree             ceil(log2 K) (a + S b)   binomial
//   naive            a + (K-1) S b            between the root and each
//
// Rules that hold for each:
//   - A rank adds up what it receives of a chunk and its own input in a fixed order, so the sum does not depend on what
//     arrives first. It sends the sum on (a partial), or it is the one that finishes the chunk.
//   - A chunk is finished by one rank, and copied to all others; in one-shot every rank finishes all of it, in one
//     order.
//   - A transfer is named by (step, chunk), unique among those that arrive at one rank. Steps name, they do not
//     synchronise: a segment goes on as soon as what it is made of is there (cut-through).
//
// With K ranks, S bytes, one-way delay a and a byte's time b, each rank sending on an uplink of its own:
//
//   ring               2(K-1) a + 2(K-1)/K S b    each chunk travels around the ring twice: summed, then copied
//   two_rings          as ring                    one half each way around: both directions of a full-duplex link
//   rings              as ring                    a part around each of several rings that share no path, where paths
//                                                 are slower than the ranks' ends
//   direct             2 a + 2(K-1)/K S b         each rank gathers its chunk from all, and sends it to all; chunks may
//                                                 differ: a rank with w of S sends (1 + (K-2) w) S
//   one_shot           a + (K-1) S b              everyone sends everything to everyone
//   tree               2 ceil(log2 K) (a + S b)   binomial, rooted at rank 0
//   halving_doubling   2 log2 K a + 2(K-1)/K S b  partners at half the distance each step; the rest folds in and out
//   naive              2(K-1) (a + S b)           all to rank 0, and back
//   hierarchical       as direct between sites    inside each site first: a chunk leaves a site once; chunks may
//                                                 differ, by the sites that finish them
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "proto/collective/layout.h"
#include "proto/ids.h"
#include "proto/segment_header.h"

namespace ringway::collective {

inline constexpr std::uint32_t kNone = ~std::uint32_t{0};

// A chunk that arrives at this rank.
struct Arrival {
  std::uint16_t step = 0;  // of the sender's departure; with chunk it names the position
  std::uint16_t chunk = 0;
  Rank from;
  bool reduce = false;   // a contribution to the sum; else finished, to be copied
  bool partial = false;  // of those that reduce: a sum of several ranks' inputs; else one rank's input
};

enum class Source : std::uint8_t { kInput, kPartial, kFinished };

// A chunk that this rank sends: its input, the sum that it has made of it, or the finished chunk.
struct Departure {
  std::uint16_t step = 0;
  std::uint16_t chunk = 0;
  Rank to;
  Source source = Source::kInput;
};

// The input's chunk that a departure sends. In an all-to-all, with or without counts by rank, chunk r of the input goes
// to rank r; it travels and arrives under the sender's number.
constexpr std::uint16_t InputChunkOf(OpKind collective, const Departure& departure) {
  const bool all_to_all = collective == OpKind::kAllToAll || collective == OpKind::kAllToAllV;
  const bool by_receiver = all_to_all && departure.source == Source::kInput;
  return by_receiver ? static_cast<std::uint16_t>(departure.to.value) : departure.chunk;
}

// Lists what this rank adds up of a chunk, in this order.
struct Sum {
  std::uint16_t chunk = 0;
  std::vector<std::uint32_t> order;  // indices of arrivals; kOwn: the rank's input
  bool finishes = false;             // the sum is the result; else it is sent on
  static constexpr std::uint32_t kOwn = kNone;
};

struct Schedule {
  std::vector<std::uint32_t> weights = {1};  // of each chunk: how the grid cuts the buffer if not by rank
  bool rank_parts = false;                   // chunk r is rank r's part of the buffer
  bool everyone_sums = false;  // several ranks finish one chunk: they must add up the same values in the same order
  bool in_process = false;     // all ranks are in one process: no transfers (daemon/collective/host_board.h)
  bool sums_host = false;      // Sum::kOwn is the sum of this process's ranks (proto/collective/host_schedule.h)
  std::vector<Arrival> arrivals;
  std::vector<Departure> departures;
  std::vector<Sum> sums;  // at most one a chunk

  std::uint32_t chunks() const { return static_cast<std::uint32_t>(weights.size()); }
};

// A part of the buffer goes around a ring of its own.
struct WeightedRing {
  std::vector<Rank> order;  // a permutation of 0 .. K-1
  std::uint32_t share = 1;  // among the other rings'
};

// The routes that a view plans between its ranks. The one ring and the two follow `ring`; tree, halving-doubling and
// naive go by rank, from rank 0 as the root.
struct Routes {
  std::vector<Rank> ring;                       // a permutation of 0 .. K-1
  std::vector<std::uint32_t> sites = {};        // by rank, for hierarchical: below K
  std::vector<std::uint32_t> shares = {};       // by rank, for direct (proto/collective/shares.h)
  std::vector<std::uint32_t> site_shares = {};  // by site, for hierarchical; empty: equal
  std::vector<WeightedRing> rings = {};         // for rings; empty: the one ring
};

struct Transfer {
  std::uint16_t step = 0;
  std::uint16_t chunk = 0;
  Rank from;
  Rank to;
  bool reduce = false;
};

// The transfers of all ranks, and flags as in Schedule.
struct Transfers {
  std::vector<std::uint32_t> weights = {1};
  bool rank_parts = false;
  bool everyone_sums = false;
  std::vector<Transfer> all;
};

// K = 1 needs no transfers. REQUIRES: HasAlgorithm(collective, algorithm), `root` is a rank.
Transfers TransfersOf(OpKind collective, Algorithm algorithm, const Routes& routes, Rank root = Rank());
// Returns one rank's part of them.
Schedule MakeSchedule(OpKind collective, Algorithm algorithm, const Routes& routes, Rank self, Rank root = Rank());

// An all_to_all_v without the transfers that the layout makes empty: such pairs exchange nothing.
Schedule WithoutEmpty(Schedule schedule, const Layout& layout);

// Shares one schedule among all who run it.
inline std::shared_ptr<const Schedule> Share(Schedule schedule) {
  return std::make_shared<const Schedule>(std::move(schedule));
}

// Returns the algorithm for the collective where `planned` is that for an all-reduce of as many bytes.
Algorithm AlgorithmFor(OpKind collective, Algorithm planned);

// Returns the most bytes that a rank's reorder buffer may hold for an operation of `bytes`.
std::uint64_t ReorderBytesMax(Algorithm algorithm, std::uint32_t world_size, std::uint64_t bytes);

// A holder of a finished result sends all of it to one rank that lacks it: in one chunk, or in `parts` where the result
// was finished in parts, so that the blocks of a codec are those that it was finished in.
Schedule FetchSchedule(Rank holder, Rank lacking, Rank self, std::uint32_t parts = 0);

}  // namespace ringway::collective
