#include "master/planning/route_rings.h"

#include <algorithm>
#include <numeric>

#include "master/planning/ring_order.h"
#include "proto/collective/shares.h"

namespace ringway {
namespace {

constexpr double kRingsGainRatio = 1.1;
constexpr double kTaken = 1;  // rate of a path that another ring uses, bytes per second

using Order = std::vector<std::uint32_t>;

// Rings that share no path, the fastest first.
std::vector<Ring> Strides(const PathMatrix& paths, const Order& ring) {
  std::vector<Ring> rings;
  for (std::size_t stride = 1; stride < ring.size(); ++stride) {
    if (std::gcd(stride, ring.size()) != 1) continue;
    Order order;
    for (std::size_t i = 0; i < ring.size(); ++i) order.push_back(ring[i * stride % ring.size()]);
    rings.push_back(MeasureRing(paths, order));
  }
  std::stable_sort(rings.begin(), rings.end(), [](const Ring& a, const Ring& b) { return a.rate > b.rate; });
  if (rings.size() > kRingsMax) rings.resize(kRingsMax);
  return rings;
}

std::vector<Ring> Greedy(const PathMatrix& paths) {
  std::vector<Ring> rings;
  PathMatrix left = paths;
  while (rings.size() < kRingsMax) {
    const Ring ring = FindRing(left);
    if (ring.rate <= kTaken) break;
    for (std::size_t i = 0; i < ring.order.size(); ++i) {
      left.set_rate(ring.order[i], ring.order[(i + 1) % ring.order.size()], kTaken);
    }
    rings.push_back(ring);
  }
  return rings;
}

double SlowestEnd(const PathMatrix& paths) {
  double slowest = paths.uplink(0);
  for (std::size_t peer = 0; peer < paths.size(); ++peer) {
    slowest = std::min({slowest, paths.uplink(peer), paths.downlink(peer)});
  }
  return slowest;
}

double RateOfAll(const std::vector<Ring>& rings) {
  return std::accumulate(rings.begin(), rings.end(), 0.0, [](double sum, const Ring& ring) { return sum + ring.rate; });
}

// Keeps as many rings as the ends can use, the fastest first.
void DropNeedless(std::vector<Ring>* rings, double end) {
  double sum = 0;
  const auto enough =
      std::find_if(rings->begin(), rings->end(), [&](const Ring& ring) { return (sum += ring.rate) >= end; });
  if (enough != rings->end()) rings->erase(enough + 1, rings->end());
}

std::vector<WeightedRing> Weighted(const std::vector<Ring>& rings) {
  const double all = RateOfAll(rings);
  std::vector<WeightedRing> out;
  std::uint32_t left = kWholeShare;
  for (const Ring& ring : rings) {
    const auto share = std::min(left, static_cast<std::uint32_t>(ring.rate / all * kWholeShare));
    out.push_back({.order = ring.order, .share = share});
    left -= share;
  }
  out.front().share += left;  // rounding remainder
  return out;
}

}  // namespace

std::vector<WeightedRing> FindRings(const PathMatrix& measured, const Order& ring, RingSearch search) {
  if (measured.size() < 3) return {};
  const PathMatrix paths = WithAssumptions(measured);
  const double one = MeasureRing(paths, ring).rate;
  const double end = SlowestEnd(paths);
  if (end <= kRingsGainRatio * one) return {};
  std::vector<Ring> rings = Strides(paths, ring);
  DropNeedless(&rings, end);
  if (search == RingSearch::kGreedy) {
    std::vector<Ring> greedy = Greedy(paths);
    DropNeedless(&greedy, end);
    if (RateOfAll(greedy) > RateOfAll(rings)) rings = std::move(greedy);
  }
  return rings.size() > 1 && RateOfAll(rings) > kRingsGainRatio * one ? Weighted(rings) : std::vector<WeightedRing>{};
}

}  // namespace ringway
