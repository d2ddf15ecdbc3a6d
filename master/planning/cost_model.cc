#include "master/planning/cost_model.h"

#include "proto/check.h"

namespace ringway {
namespace {

// A schedule replaces an earlier one only if it is cheaper by this factor.
constexpr double kTieRatio = 1.01;

constexpr double kNoLimit = std::numeric_limits<double>::infinity();

std::vector<Rank> RanksOf(const std::vector<std::uint32_t>& order) { return {order.begin(), order.end()}; }

// Returns the routes in the executor's form.
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

std::vector<CostModel::Candidate> CostModel::CandidatesFor(OpKind collective) const {
  std::vector<Candidate> candidates;
  for (const Algorithm algorithm : kAlgorithms) {
    if (HasAlgorithm(collective, algorithm)) candidates.push_back({algorithm, FlowsOf(collective, algorithm)});
  }
  return candidates;
}

bool CostModel::Allows(const Candidate& candidate, std::uint64_t bytes) const {
  return candidate.algorithm != Algorithm::kOneShot || bytes <= options_.eager_bytes_max;
}

std::size_t CostModel::CheapestOf(const std::vector<Candidate>& candidates, std::uint64_t bytes) const {
  std::size_t cheapest = 0;
  double least = kNoLimit;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (!Allows(candidates[i], bytes)) continue;
    const double price = PriceOf(candidates[i].flows, bytes, least);
    if (price * kTieRatio >= least) continue;
    cheapest = i;
    least = price;
  }
  return cheapest;
}

Algorithm CostModel::Cheapest(std::uint64_t bytes) const {
  const std::vector<Candidate> candidates = CandidatesFor(OpKind::kAllReduce);
  return candidates[CheapestOf(candidates, bytes)].algorithm;
}

std::uint64_t CostModel::Crossover(const Candidate& low, const Candidate& high, std::uint64_t bytes) const {
  std::uint64_t upto = bytes;
  for (std::uint64_t step = bytes / 2; step >= bytes / 8; step /= 2) {
    const std::uint64_t middle = upto + step;
    if (!Allows(low, middle)) continue;
    const double price = PriceOf(high.flows, middle, kNoLimit);
    if (PriceOf(low.flows, middle, price) <= price) upto = middle;
  }
  return upto;
}

std::vector<TableEntry> CostModel::BuildTable(OpKind collective) const {
  const std::vector<Candidate> candidates = CandidatesFor(collective);
  std::vector<TableEntry> table;
  std::size_t before = CheapestOf(candidates, kTableBytesMin);
  const auto step = [&](std::uint64_t from, std::size_t next) {  // from this size to its double
    if (next == before) return;
    table.push_back({.bytes_upto = Crossover(candidates[before], candidates[next], from),
                     .algorithm = candidates[before].algorithm});
    before = next;
  };
  for (std::uint64_t bytes = kTableBytesMin; bytes < kTableBytesMax; bytes *= 4) {
    const std::size_t end = CheapestOf(candidates, 4 * bytes);
    step(bytes, end == before ? end : CheapestOf(candidates, 2 * bytes));
    step(2 * bytes, end);
  }
  table.push_back({.algorithm = candidates[before].algorithm});
  return table;
}

}  // namespace ringway
