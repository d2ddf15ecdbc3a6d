#include "master/planning/cost_model.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "proto/check.h"

namespace ringway {
namespace {

// A schedule replaces an earlier one only if it is cheaper by this factor.
constexpr double kTieRatio = 1.01;

constexpr double kNoLimit = std::numeric_limits<double>::infinity();

std::vector<Rank> RanksOf(const std::vector<std::uint32_t>& order) { return {order.begin(), order.end()}; }

// As the executor has them.
collective::Routes ExecutedRoutes(const Routes& routes, const PathMatrix& paths) {
  collective::Routes out{.ring = RanksOf(routes.ring),
                         .sites = routes.sites,
                         .shares = routes.shares,
                         .site_shares = routes.site_shares,
                         .rings = {}};
  for (const WeightedRing& ring : routes.rings)
    out.rings.push_back({.order = RanksOf(ring.order), .share = ring.share});
  for (std::size_t peer = 0; routes.sites.empty() && peer < paths.size(); ++peer) out.sites.push_back(paths.site(peer));
  return out;
}

}  // namespace

double TextbookSeconds(Algorithm algorithm, std::size_t peers, double bytes, const UniformLink& link) {
  RINGWAY_CHECK(peers >= 1);
  if (peers == 1) return 0;
  const auto count = static_cast<double>(peers);
  const double whole = bytes * link.seconds_per_byte;  // Sb
  switch (algorithm) {
    case Algorithm::kRing:
    case Algorithm::kTwoRings:
    case Algorithm::kRings:
      return 2 * (count - 1) * (link.delay + whole / count);
    case Algorithm::kDirect:
    case Algorithm::kHierarchical:
      return 2 * link.delay + 2 * (count - 1) / count * whole;
    case Algorithm::kOneShot:
      return link.delay + (count - 1) * whole;
    case Algorithm::kTree:
      return 2 * std::ceil(std::log2(count)) * (link.delay + whole);
    case Algorithm::kHalvingDoubling: {
      const auto core = static_cast<double>(std::bit_floor(peers));
      const double fold = core < count ? 2 * (link.delay + whole) : 0;
      return 2 * std::log2(core) * link.delay + 2 * (core - 1) / core * whole + fold;
    }
    case Algorithm::kNaive:
      return 2 * (count - 1) * (link.delay + whole);
  }
  RINGWAY_CHECK(false);
}

CostModel::CostModel(const PathMatrix& measured, const Routes& routes, const CostOptions& options)
    : model_(WithAssumptions(measured)), routes_(ExecutedRoutes(routes, measured)), options_(options) {
  const std::size_t peers = measured.size();
  RINGWAY_CHECK(routes.ring.size() == peers && (routes.shares.empty() || routes.shares.size() == peers));
  RINGWAY_CHECK(options_.segment_bytes_max > 0);
}

FlowModel::Flows CostModel::FlowsOf(OpKind collective, Algorithm algorithm) const {
  return model_.FlowsOf(collective::TransfersOf(collective, algorithm, routes_));
}

double CostModel::SecondsOf(const FlowModel::Flows& flows, std::uint64_t bytes, double limit) const {
  if (routes_.ring.size() == 1) return 0;
  const double done = bytes > options_.retained_bytes_max ? model_.longest_delay() : 0;
  return model_.Seconds(flows, static_cast<double>(bytes), options_.segment_bytes_max, limit - done) + done;
}

double CostModel::PriceOf(const FlowModel::Flows& flows, std::uint64_t bytes, double limit) const {
  const double queued = kQueuedPart * flows.busiest * static_cast<double>(bytes);
  return SecondsOf(flows, bytes, limit - queued) + queued;
}

double CostModel::Seconds(Algorithm algorithm, std::uint64_t bytes) const {
  return SecondsOf(FlowsOf(OpKind::kAllReduce, algorithm), bytes, kNoLimit);
}

std::vector<Algorithm> CostModel::CheapestOf(OpKind collective, const std::vector<std::uint64_t>& sizes) const {
  std::vector<Algorithm> cheapest(sizes.size(), kAlgorithms.front());
  std::vector<double> least(sizes.size(), kNoLimit);
  for (const Algorithm algorithm : kAlgorithms) {
    if (!HasAlgorithm(collective, algorithm)) continue;
    const FlowModel::Flows flows = FlowsOf(collective, algorithm);
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      if (algorithm == Algorithm::kOneShot && sizes[i] > options_.eager_bytes_max) continue;
      const double price = PriceOf(flows, sizes[i], least[i]);
      if (price * kTieRatio >= least[i]) continue;
      cheapest[i] = algorithm;
      least[i] = price;
    }
  }
  return cheapest;
}

Algorithm CostModel::Cheapest(std::uint64_t bytes) const { return CheapestOf(OpKind::kAllReduce, {bytes}).front(); }

std::uint64_t CostModel::Crossover(OpKind collective, Algorithm low, Algorithm high, std::uint64_t bytes) const {
  const FlowModel::Flows flows_low = FlowsOf(collective, low);
  const FlowModel::Flows flows_high = FlowsOf(collective, high);
  std::uint64_t upto = bytes;
  for (std::uint64_t step = bytes / 2; step >= bytes / 8; step /= 2) {
    const std::uint64_t middle = upto + step;
    if (low == Algorithm::kOneShot && middle > options_.eager_bytes_max) continue;
    const double price = PriceOf(flows_high, middle, kNoLimit);
    if (PriceOf(flows_low, middle, price) <= price) upto = middle;
  }
  return upto;
}

std::vector<TableEntry> CostModel::BuildTable(OpKind collective) const {
  std::vector<std::uint64_t> sizes;
  for (std::uint64_t bytes = kTableBytesMin; bytes <= kTableBytesMax; bytes *= 2) sizes.push_back(bytes);
  const std::vector<Algorithm> cheapest = CheapestOf(collective, sizes);
  std::vector<TableEntry> table;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (i + 1 < sizes.size() && cheapest[i] == cheapest[i + 1]) continue;
    std::uint64_t upto = sizes[i];
    if (i + 1 < sizes.size()) upto = Crossover(collective, cheapest[i], cheapest[i + 1], upto);
    table.push_back({.bytes_upto = upto, .algorithm = cheapest[i]});
  }
  table.back().bytes_upto = std::numeric_limits<std::uint64_t>::max();
  return table;
}

}  // namespace ringway
