#include "master/planning/cost_model.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "proto/check.h"
#include "proto/collective/shares.h"

namespace ringway {
namespace {

// A schedule replaces an earlier one only if it is cheaper by this factor.
constexpr double kTieRatio = 1.01;

// For one of several concurrent rings, which has `part` of every uplink and downlink. With two peers they share the
// paths, too.
double RingSeconds(const PathMatrix& paths, std::span<const std::uint32_t> ring, double part, double chunk,
                   double segment) {
  const auto next = [&](std::size_t place) { return ring[(place + 1) % ring.size()]; };
  SiteExits exits(paths);
  for (std::size_t place = 0; place < ring.size(); ++place) exits.Add(ring[place], next(place));
  std::vector<RingHop> hops;
  for (std::size_t place = 0; place < ring.size(); ++place) {
    const std::uint32_t from = ring[place];
    const std::uint32_t to = next(place);
    const double path = paths.rate(from, to) * (ring.size() == 2 ? part : 1);
    const double ends = std::min({paths.uplink(from), paths.downlink(to), exits.ShareOf(from, to)}) * part;
    hops.push_back({.delay = paths.delay(from, to), .rate = std::min(path, ends)});
  }
  return RingWalkSeconds(hops, chunk, segment);
}

double OneShotSeconds(const PathMatrix& paths, double bytes) {
  FlowLoad load(paths);
  ForEachPath(paths.size(), [&](std::uint32_t from, std::uint32_t to) { load.Add(from, to, bytes); });
  return load.LastArrival();
}

// Steps of pairs, each peer's after its own and its partner's last.
class PairwiseSteps {
 public:
  explicit PairwiseSteps(const PathMatrix& paths) : paths_(paths), ready_(paths.size()) {}

  // One step: who sends to whom, each `bytes`.
  using Pairs = std::vector<std::pair<std::uint32_t, std::uint32_t>>;
  void Send(const Pairs& pairs, double bytes) {
    SiteExits exits(paths_);
    for (const auto& [from, to] : pairs) exits.Add(from, to);
    const std::vector<double> before = ready_;
    for (const auto& [from, to] : pairs) {
      const double rate = std::min(paths_.LinkRate(from, to), exits.ShareOf(from, to));
      ready_[to] = std::max(before[from], before[to]) + bytes / rate + paths_.delay(from, to);
    }
  }

  double End() const { return *std::max_element(ready_.begin(), ready_.end()); }

 private:
  const PathMatrix& paths_;
  std::vector<double> ready_;
};

double HalvingDoublingSeconds(const PathMatrix& paths, double bytes) {
  const auto all = static_cast<std::uint32_t>(paths.size());
  const std::uint32_t core = std::bit_floor(all);
  PairwiseSteps::Pairs in;
  PairwiseSteps::Pairs out;
  for (std::uint32_t rest = core; rest < all; ++rest) {
    in.emplace_back(rest, rest - core);
    out.emplace_back(rest - core, rest);
  }
  PairwiseSteps steps(paths);
  const auto exchange = [&](std::uint32_t bit) {
    PairwiseSteps::Pairs partners;
    for (std::uint32_t peer = 0; peer < core; ++peer) partners.emplace_back(peer, peer ^ bit);
    steps.Send(partners, bytes * bit / core);
  };
  steps.Send(in, bytes);
  for (std::uint32_t bit = core / 2; bit > 0; bit /= 2) exchange(bit);
  for (std::uint32_t bit = 1; bit < core; bit *= 2) exchange(bit);
  steps.Send(out, bytes);
  return steps.End();
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

CostModel::CostModel(const PathMatrix& measured, Routes routes, const CostOptions& options)
    : paths_(WithAssumptions(measured)), routes_(std::move(routes)), options_(options) {
  RINGWAY_CHECK(routes_.ring.size() == paths_.size() && options_.root < paths_.size());
  RINGWAY_CHECK(routes_.shares.empty() || routes_.shares.size() == paths_.size());
  RINGWAY_CHECK(options_.segment_bytes_max > 0);
  ForEachPath(paths_.size(), [this](std::uint32_t from, std::uint32_t to) {
    longest_delay_ = std::max(longest_delay_, paths_.delay(from, to));
  });
}

double CostModel::Seconds(Algorithm algorithm, std::uint64_t bytes) const {
  if (paths_.size() == 1) return 0;
  const double done = bytes > options_.retained_bytes_max ? longest_delay_ : 0;
  return AllReduceSeconds(algorithm, static_cast<double>(bytes)) + done;
}

double CostModel::AllReduceSeconds(Algorithm algorithm, double bytes) const {
  const std::size_t peers = paths_.size();
  const std::vector<std::uint32_t>& ring = routes_.ring;
  constexpr std::uint32_t kHalf = kWholeShare / 2;
  const auto along = [&](const std::vector<ReduceTree>& trees) {
    return TreesSeconds(paths_, trees, options_.segment_bytes_max);
  };
  switch (algorithm) {
    case Algorithm::kRing:
      return RingsSeconds({{ring, kWholeShare}}, bytes);
    case Algorithm::kTwoRings:
      return RingsSeconds({{ring, kHalf}, {{ring.rbegin(), ring.rend()}, kHalf}}, bytes);
    case Algorithm::kRings:
      return routes_.rings.empty() ? RingsSeconds({{ring, kWholeShare}}, bytes) : RingsSeconds(routes_.rings, bytes);
    case Algorithm::kDirect:
      return along(OwnersTrees(bytes));
    case Algorithm::kOneShot:
      return OneShotSeconds(paths_, bytes);
    case Algorithm::kTree:
      return along({BinomialTree(options_.root, peers, bytes)});
    case Algorithm::kHalvingDoubling:
      return HalvingDoublingSeconds(paths_, bytes);
    case Algorithm::kNaive:
      return along({StarTree(options_.root, peers, bytes)});
    case Algorithm::kHierarchical:
      return along(SiteTrees(paths_, ring, bytes));
  }
  RINGWAY_CHECK(false);
}

double CostModel::RingsSeconds(const std::vector<WeightedRing>& rings, double bytes) const {
  const auto part_of = [](const WeightedRing& ring) { return ring.share / static_cast<double>(kWholeShare); };
  double largest = 0;
  for (const WeightedRing& ring : rings) largest = std::max(largest, part_of(ring));
  const double chunk = bytes / static_cast<double>(paths_.size());
  const double segment = SegmentBytes(largest * chunk, options_.segment_bytes_max);
  double slowest = 0;
  for (const WeightedRing& ring : rings) {
    const double part = part_of(ring);
    if (part == 0) continue;
    slowest = std::max(slowest, RingSeconds(paths_, ring.order, part, part * chunk, std::min(segment, part * chunk)));
  }
  return slowest;
}

std::vector<ReduceTree> CostModel::OwnersTrees(double bytes) const {
  std::vector<ReduceTree> trees;
  for (std::uint32_t owner = 0; owner < paths_.size(); ++owner) {
    const double part = routes_.shares.empty() ? 1 / static_cast<double>(paths_.size())
                                               : routes_.shares[owner] / static_cast<double>(kWholeShare);
    trees.push_back(StarTree(owner, paths_.size(), bytes * part));
  }
  return trees;
}

Algorithm CostModel::Cheapest(std::uint64_t bytes) const {
  Algorithm cheapest = Algorithm::kRing;
  double least = Seconds(cheapest, bytes);
  for (const Algorithm algorithm : kAlgorithms) {
    if (algorithm == Algorithm::kOneShot && bytes > options_.eager_bytes_max) continue;
    const double seconds = Seconds(algorithm, bytes);
    if (seconds * kTieRatio >= least) continue;
    cheapest = algorithm;
    least = seconds;
  }
  return cheapest;
}

std::vector<TableEntry> CostModel::BuildTable() const {
  std::vector<TableEntry> table;
  for (std::uint64_t bytes = kTableBytesMin; bytes <= kTableBytesMax; bytes *= 2) {
    const TableEntry entry{.bytes_upto = bytes, .algorithm = Cheapest(bytes)};
    if (table.empty() || table.back().algorithm != entry.algorithm) {
      table.push_back(entry);
    } else {
      table.back() = entry;
    }
  }
  table.back().bytes_upto = std::numeric_limits<std::uint64_t>::max();
  return table;
}

}  // namespace ringway
