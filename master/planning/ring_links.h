// The links of a group as the ring search weighs them. Pure; part of ring_order.
//
// Rates are divided into classes. The first class starts at the fastest link's rate and includes all less than 10%
// slower (rate * 1.1 > first); the fastest of the rest starts the next class, and so on. So links that differ only by
// noise are mostly equal; no partition can keep every such pair together, this one favours those near the top.
//
// Costs are integers, so that sums are exact in any order and ties are real: the delay in microseconds times 2^14, plus
// one for a link between two sites. The cheapest ring has the least total delay, then the fewest crossings.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "master/planning/path_matrix.h"

namespace ringway {

// Class 0 is the fastest.
using RateClass = std::uint16_t;
using LinkCost = std::int64_t;

// Two rates closer than this are the same.
inline constexpr double kRateRatio = 1.1;

class RingLinks {
 public:
  explicit RingLinks(const PathMatrix& measured);

  std::size_t size() const { return size_; }
  // REQUIRES: from != to.
  RateClass rate_class(std::size_t from, std::size_t to) const { return class_[from * size_ + to]; }
  LinkCost cost(std::size_t from, std::size_t to) const { return cost_[from * size_ + to]; }
  RateClass worst_class() const { return worst_class_; }

  // Returns an upper bound for every ring: each peer needs one outgoing and one incoming link.
  RateClass BestClassPossible() const;

  // Class of a ring's slowest link, and total cost of its links. REQUIRES: `ring` has at least two peers.
  RateClass ClassOf(std::span<const std::uint32_t> ring) const;
  LinkCost CostOf(std::span<const std::uint32_t> ring) const;

 private:
  std::size_t size_;
  std::vector<RateClass> class_;
  std::vector<LinkCost> cost_;
  RateClass worst_class_ = 0;
};

}  // namespace ringway
