// Predicted time and money of an all-reduce with each schedule, and the best one for each size. Pure.
//
// Units: seconds, bytes, bytes per second; money as in the paths. K peers; S bytes an operation.
#pragma once

#include <ringway/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "master/planning/flow_model.h"
#include "master/planning/path_matrix.h"
#include "master/planning/routes.h"

namespace ringway {

// How much of one more operation in flight a plan allows for. A lone operation is slower than it could be by no larger
// part.
inline constexpr double kQueuedPart = 0.5;

// The order is that of preference for ties: schedules that load fewer paths at once come first.
inline constexpr std::array kAlgorithms = {Algorithm::kRing,   Algorithm::kTwoRings,        Algorithm::kRings,
                                           Algorithm::kDirect, Algorithm::kHierarchical,    Algorithm::kOneShot,
                                           Algorithm::kTree,   Algorithm::kHalvingDoubling, Algorithm::kNaive};

struct CostOptions {
  std::uint64_t segment_bytes_max = 256 * 1024;
  std::uint64_t retained_bytes_max = 64 * 1024;  // above this the exchange of DONE is added
  std::uint64_t eager_bytes_max = 4 << 20;       // bytes that may be sent to a rank before it is READY; see Best
};

// Range of a table, in powers of two.
inline constexpr std::uint64_t kTableBytesMin = std::uint64_t{1} << 10;
inline constexpr std::uint64_t kTableBytesMax = std::uint64_t{1} << 30;

// An entry holds for operations of at most `bytes_upto` bytes, and more than the previous entry's.
struct TableEntry {
  std::uint64_t bytes_upto = std::numeric_limits<std::uint64_t>::max();
  Algorithm algorithm = Algorithm::kRing;
  friend bool operator==(const TableEntry&, const TableEntry&) = default;
};

// Prices the executor's own schedules (proto/collective/schedule.h) with the flow model; unknown paths are filled in by
// WithAssumptions. If S > retained_bytes_max, the exchange of DONE adds the longest delay of all paths.
//
// One peer costs nothing. A value; const functions are safe from any thread.
class CostModel {
 public:
  // REQUIRES: `routes` are for these peers, segment_bytes_max > 0.
  CostModel(const PathMatrix& measured, const Routes& routes, const CostOptions& options = {});

  // REQUIRES: one of kAlgorithms.
  double Seconds(Algorithm algorithm, std::uint64_t bytes) const;

  // What it costs to send. REQUIRES: one of kAlgorithms.
  double Money(Algorithm algorithm, std::uint64_t bytes) const;
  // The time plus kQueuedPart of the time for which the previous operation may occupy the busiest pipe; with many in
  // flight only that counts. REQUIRES: one of kAlgorithms.
  double QueuedSeconds(Algorithm algorithm, std::uint64_t bytes) const;

  // Returns the best algorithm: the fastest by QueuedSeconds. In the order of kAlgorithms, each replaces the best so
  // far if it is over 1% faster. Where the paths allow a cheaper one to be slower (PathMatrix::slower_max), it is the
  // one of the least money among those that take at most so many times the least time.
  // One_shot is considered up to eager_bytes_max only: larger buffers wait until their receivers are READY, and these
  // hold all but one of them as early values.
  Algorithm Best(std::uint64_t bytes) const;

  // The best at each power of four from kTableBytesMin to kTableBytesMax, of those that a collective has; where two
  // neighbours differ, also at the power of two between, and the sizes on both sides of it are divided where the second
  // becomes better. Ascending, the last entry is open. Never empty. Takes 4 ms for 8 peers, 0.14 s for 64.
  std::vector<TableEntry> BuildTable(OpKind collective = OpKind::kAllReduce) const;

 private:
  struct Candidate {
    Algorithm algorithm;
    FlowModel::Flows flows;
  };
  std::vector<Candidate> CandidatesFor(OpKind collective) const;
  bool Allows(const Candidate& candidate, std::uint64_t bytes) const;
  // Return the index of the one that Best means: of any, by time alone, by money.
  std::size_t BestOf(const std::vector<Candidate>& candidates, std::uint64_t bytes) const;
  std::size_t FastestOf(const std::vector<Candidate>& candidates, std::uint64_t bytes) const;
  std::size_t LeastMoneyOf(const std::vector<Candidate>& candidates, std::uint64_t bytes) const;
  FlowModel::Flows FlowsOf(OpKind collective, Algorithm algorithm) const;
  double SecondsOf(const FlowModel::Flows& flows, std::uint64_t bytes, double limit) const;
  double QueuedSecondsOf(const FlowModel::Flows& flows, std::uint64_t bytes, double limit) const;
  // Up to where `low`, the best of `bytes`, is no worse than `high`, the best of twice as many.
  std::uint64_t Crossover(const std::vector<Candidate>& candidates, std::size_t low, std::size_t high,
                          std::uint64_t bytes) const;

  FlowModel model_;
  collective::Routes routes_;
  CostOptions options_;
  double slower_max_;
};

}  // namespace ringway
