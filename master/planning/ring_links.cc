#include "master/planning/ring_links.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>

namespace ringway {
namespace {

constexpr LinkCost kCostPerMicrosecond = 1 << 14;
static_assert(PathMatrix::kPeersMax < kCostPerMicrosecond, "all links may cross and weigh less than one microsecond");

// Delays are clamped to this, so that sums over kPeersMax links cannot overflow.
constexpr double kDelaySecondsMax = 100;

LinkCost CostOfLink(const PathMatrix& paths, std::size_t from, std::size_t to) {
  const double seconds = std::min(paths.delay(from, to), kDelaySecondsMax);
  const LinkCost crossing = paths.site(from) != paths.site(to) ? 1 : 0;
  return std::llround(seconds * 1e6) * kCostPerMicrosecond + crossing;
}

// Returns the first rate of each class, descending. Doubles span fewer than 15,000 factors of 1.1.
std::vector<double> ClassesOf(std::vector<double> rates) {
  std::sort(rates.begin(), rates.end(), std::greater<>());
  std::vector<double> firsts;
  for (const double rate : rates) {
    if (firsts.empty() || rate * kRateRatio <= firsts.back()) firsts.push_back(rate);
  }
  return firsts;
}

RateClass Classify(const std::vector<double>& firsts, double rate) {
  const auto next = std::partition_point(firsts.begin(), firsts.end(), [rate](double first) { return first >= rate; });
  return static_cast<RateClass>(std::distance(firsts.begin(), next) - 1);
}

}  // namespace

RingLinks::RingLinks(const PathMatrix& measured) : size_(measured.size()), class_(size_ * size_), cost_(size_ * size_) {
  const PathMatrix paths = WithAssumptions(measured);
  std::vector<double> rates;
  rates.reserve(size_ * size_);
  ForEachPath(size_, [&](std::uint32_t from, std::uint32_t to) { rates.push_back(paths.LinkRate(from, to)); });
  const std::vector<double> firsts = ClassesOf(std::move(rates));
  worst_class_ = static_cast<RateClass>(std::max<std::size_t>(firsts.size(), 1) - 1);
  ForEachPath(size_, [&](std::uint32_t from, std::uint32_t to) {
    class_[from * size_ + to] = Classify(firsts, paths.LinkRate(from, to));
    cost_[from * size_ + to] = CostOfLink(paths, from, to);
  });
}

RateClass RingLinks::BestClassPossible() const {
  RateClass bound = 0;
  for (std::size_t peer = 0; peer < size_; ++peer) {
    RateClass best_out = worst_class_;
    RateClass best_in = worst_class_;
    for (std::size_t other = 0; other < size_; ++other) {
      if (other == peer) continue;
      best_out = std::min(best_out, rate_class(peer, other));
      best_in = std::min(best_in, rate_class(other, peer));
    }
    bound = std::max({bound, best_out, best_in});
  }
  return bound;
}

RateClass RingLinks::ClassOf(std::span<const std::uint32_t> ring) const {
  RateClass worst = rate_class(ring.back(), ring.front());
  for (std::size_t i = 1; i < ring.size(); ++i) worst = std::max(worst, rate_class(ring[i - 1], ring[i]));
  return worst;
}

LinkCost RingLinks::CostOf(std::span<const std::uint32_t> ring) const {
  LinkCost sum = cost(ring.back(), ring.front());
  for (std::size_t i = 1; i < ring.size(); ++i) sum += cost(ring[i - 1], ring[i]);
  return sum;
}

}  // namespace ringway
