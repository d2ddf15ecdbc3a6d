#include "master/planning/cost_model.h"

#include <algorithm>
#include <optional>

#include "proto/check.h"

namespace ringway {
namespace {

// A schedule replaces an earlier one only if it is faster by this factor.
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
    : model_(WithAssumptions(measured)),
      routes_(ExecutedRoutes(routes, measured)),
      options_(options),
      slower_max_(measured.slower_max()) {
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

double CostModel::QueuedSecondsOf(const FlowModel::Flows& flows, std::uint64_t bytes, double limit) const {
  const double queued = kQueuedPart * flows.busiest * static_cast<double>(bytes);
  return SecondsOf(flows, bytes, limit - queued) + queued;
}

double CostModel::Seconds(Algorithm algorithm, std::uint64_t bytes) const {
  return SecondsOf(FlowsOf(OpKind::kAllReduce, algorithm), bytes, kNoLimit);
}

double CostModel::Money(Algorithm algorithm, std::uint64_t bytes) const {
  return FlowsOf(OpKind::kAllReduce, algorithm).money * static_cast<double>(bytes);
}

double CostModel::QueuedSeconds(Algorithm algorithm, std::uint64_t bytes) const {
  return QueuedSecondsOf(FlowsOf(OpKind::kAllReduce, algorithm), bytes, kNoLimit);
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

std::size_t CostModel::FastestOf(const std::vector<Candidate>& candidates, std::uint64_t bytes) const {
  std::size_t fastest = 0;
  double least = kNoLimit;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (!Allows(candidates[i], bytes)) continue;
    const double seconds = QueuedSecondsOf(candidates[i].flows, bytes, least);
    if (seconds * kTieRatio >= least) continue;
    fastest = i;
    least = seconds;
  }
  return fastest;
}

std::size_t CostModel::LeastMoneyOf(const std::vector<Candidate>& candidates, std::uint64_t bytes) const {
  constexpr double kSameMoney = 1e-9;  // sums of the same prices in another order
  double least = kNoLimit;
  std::vector<double> seconds;
  for (const Candidate& candidate : candidates) {
    const double limit = slower_max_ * least;
    seconds.push_back(Allows(candidate, bytes) ? QueuedSecondsOf(candidate.flows, bytes, limit) : kNoLimit);
    least = std::min(least, seconds.back());
  }
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (seconds[i] > slower_max_ * least) continue;
    const double money = candidates[i].flows.money;
    const double before = best ? candidates[*best].flows.money : kNoLimit;
    const bool costs_less = money < before * (1 - kSameMoney);
    const bool is_faster = money <= before * (1 + kSameMoney) && best && seconds[i] * kTieRatio < seconds[*best];
    if (!best || costs_less || is_faster) best = i;
  }
  return best.value_or(0);
}

std::size_t CostModel::BestOf(const std::vector<Candidate>& candidates, std::uint64_t bytes) const {
  return slower_max_ > 1 ? LeastMoneyOf(candidates, bytes) : FastestOf(candidates, bytes);
}

Algorithm CostModel::Best(std::uint64_t bytes) const {
  const std::vector<Candidate> candidates = CandidatesFor(OpKind::kAllReduce);
  return candidates[BestOf(candidates, bytes)].algorithm;
}

std::uint64_t CostModel::Crossover(const std::vector<Candidate>& candidates, std::size_t low, std::size_t high,
                                   std::uint64_t bytes) const {
  const auto is_low_better = [&](std::uint64_t size) {
    if (!Allows(candidates[low], size)) return false;
    if (slower_max_ > 1) return BestOf(candidates, size) == low;
    const double seconds = QueuedSecondsOf(candidates[high].flows, size, kNoLimit);
    return QueuedSecondsOf(candidates[low].flows, size, seconds) <= seconds;
  };
  std::uint64_t upto = bytes;
  for (std::uint64_t step = bytes / 2; step >= bytes / 8; step /= 2) {
    if (is_low_better(upto + step)) upto += step;
  }
  return upto;
}

std::vector<TableEntry> CostModel::BuildTable(OpKind collective) const {
  const std::vector<Candidate> candidates = CandidatesFor(collective);
  std::vector<TableEntry> table;
  std::size_t before = BestOf(candidates, kTableBytesMin);
  const auto step = [&](std::uint64_t from, std::size_t next) {  // from this size to its double
    if (next == before) return;
    table.push_back(
        {.bytes_upto = Crossover(candidates, before, next, from), .algorithm = candidates[before].algorithm});
    before = next;
  };
  for (std::uint64_t bytes = kTableBytesMin; bytes < kTableBytesMax; bytes *= 4) {
    const std::size_t end = BestOf(candidates, 4 * bytes);
    step(bytes, end == before ? end : BestOf(candidates, 2 * bytes));
    step(2 * bytes, end);
  }
  table.push_back({.algorithm = candidates[before].algorithm});
  return table;
}

}  // namespace ringway
