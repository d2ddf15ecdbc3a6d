#include "master/planning/ring_order.h"

#include <algorithm>
#include <utility>

#include "master/planning/ring_exact.h"
#include "master/planning/ring_links.h"
#include "master/planning/ring_search.h"
#include "proto/check.h"

namespace ringway {
namespace {

constexpr double kDelayGainSecondsMin = 100e-6;

std::vector<std::uint32_t> FindExactly(const RingLinks& links) {
  RateClass low = links.BestClassPossible();
  RateClass high = links.worst_class();  // admits every link, so there is a ring
  while (low < high) {
    const auto middle = static_cast<RateClass>((low + high) / 2);
    if (HasRing(links, middle)) {
      high = middle;
    } else {
      low = static_cast<RateClass>(middle + 1);
    }
  }
  return CheapestRing(links, high);
}

// Like FindExactly, but a failed search does not prove that there is no ring.
std::vector<std::uint32_t> FindBySearch(const RingLinks& links) {
  std::vector<std::uint32_t> best;
  int best_class = links.worst_class() + 1;
  // Searches for a ring of a class and keeps it if it is the best so far. Returns whether it is of that class.
  const auto try_class = [&](int wanted) {
    std::vector<std::uint32_t> ring = SearchRing(links, static_cast<RateClass>(wanted));
    const int reached = links.ClassOf(ring);
    if (reached < best_class || (reached == best_class && links.CostOf(ring) < links.CostOf(best))) {
      best_class = reached;
      best = std::move(ring);
    }
    return reached <= wanted;
  };
  int low = links.BestClassPossible();
  if (try_class(low)) return best;
  ++low;
  while (low < best_class) {
    const int middle = (low + best_class) / 2;
    if (!try_class(middle)) low = middle + 1;
  }
  try_class(best_class);  // earlier searches penalised links of this class; this one compares costs only
  return best;
}

bool IsPermutation(std::span<const std::uint32_t> order, std::size_t peers) {
  std::vector<std::uint32_t> sorted(order.begin(), order.end());
  std::sort(sorted.begin(), sorted.end());
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    if (sorted[i] != i) return false;
  }
  return sorted.size() == peers;
}

// REQUIRES: `paths` has no unknowns.
Ring Measure(const PathMatrix& paths, std::span<const std::uint32_t> order) {
  RINGWAY_CHECK(IsPermutation(order, paths.size()));
  Ring ring;
  ring.order.assign(order.begin(), order.end());
  std::rotate(ring.order.begin(), std::find(ring.order.begin(), ring.order.end(), 0U), ring.order.end());
  if (order.size() == 1) return ring;
  for (std::size_t i = 0; i < ring.order.size(); ++i) {
    const RingLink link{.from = ring.order[i], .to = ring.order[(i + 1) % ring.order.size()]};
    const double rate = paths.LinkRate(link.from, link.to);
    ring.delay_seconds += paths.delay(link.from, link.to);
    if (i > 0 && rate >= ring.rate) continue;
    ring.rate = rate;
    ring.bottleneck = link;
  }
  return ring;
}

}  // namespace

Ring FindRing(const PathMatrix& measured) {
  if (measured.size() == 1) return MeasureRing(measured, std::vector<std::uint32_t>{0});
  const RingLinks links(measured);
  return MeasureRing(measured, measured.size() <= kExactPeersMax ? FindExactly(links) : FindBySearch(links));
}

Ring MeasureRing(const PathMatrix& measured, std::span<const std::uint32_t> order) {
  return Measure(WithAssumptions(measured), order);
}

bool WorthSwitching(const PathMatrix& measured, std::span<const std::uint32_t> current,
                    std::span<const std::uint32_t> candidate) {
  const PathMatrix paths = WithAssumptions(measured);
  const Ring now = Measure(paths, current);
  const Ring then = Measure(paths, candidate);
  if (then.rate > now.rate * kRateRatio) return true;
  if (now.rate > then.rate * kRateRatio) return false;
  const double gain = now.delay_seconds - then.delay_seconds;
  return gain > kDelayGainSecondsMin && now.delay_seconds > then.delay_seconds * kRateRatio;
}

}  // namespace ringway
