#include "master/planning/topology.h"

#include <algorithm>
#include <chrono>
#include <map>

#include "master/planning/ring_order.h"
#include "master/planning/route_rings.h"
#include "master/planning/route_shares.h"
#include "master/planning/route_sites.h"
#include "proto/clock.h"

namespace ringway {
namespace {

// Without measurements a plan takes one_shot while the daemons keep copies, and direct while delays outweigh bytes.
constexpr std::uint64_t kDirectBytesMax = 8 << 20;

using Rules = google::protobuf::RepeatedPtrField<control::AlgorithmRule>;

void AddRule(std::uint64_t bytes_upto, Algorithm algorithm, Rules* rules) {
  control::AlgorithmRule& rule = *rules->Add();
  rule.set_bytes_upto(bytes_upto);
  rule.set_algorithm(static_cast<std::uint32_t>(algorithm));
}

void SetRules(const std::vector<TableEntry>& table, Rules* rules) {
  rules->Clear();
  for (const TableEntry& entry : table) AddRule(entry.bytes_upto, entry.algorithm, rules);
}

// How much better another plan has to be.
constexpr double kGainRatio = 1.1;

// Calls `is_better(bytes, algorithm then, algorithm now)` for sizes of a table until it returns true.
template <typename IsBetter>
bool AnySize(const control::View& then, const control::View& now, const IsBetter& is_better) {
  for (std::uint64_t bytes = kTableBytesMin; bytes <= kTableBytesMax; bytes *= 4) {
    if (is_better(bytes, AlgorithmFor(then.plan(), bytes), AlgorithmFor(now.plan(), bytes))) return true;
  }
  return false;
}

// Returns whether the table and routes of `then` are over 10% faster than those of `now` at any size; and, where those
// of `now` may be slower to be cheaper, by more than that.
bool IsFaster(const PathMatrix& paths, const control::View& then, const control::View& now) {
  const CostModel model_then = ModelOf(paths, RoutesOf(then), then.plan());
  const CostModel model_now = ModelOf(paths, RoutesOf(now), now.plan());
  const double ratio = kGainRatio * paths.slower_max();
  return AnySize(then, now, [&](std::uint64_t bytes, Algorithm algorithm_then, Algorithm algorithm_now) {
    return model_now.Seconds(algorithm_now, bytes) > ratio * model_then.Seconds(algorithm_then, bytes);
  });
}

// Returns whether, where that counts, `then` costs over 10% less than `now` at any size.
bool IsCheaper(const PathMatrix& paths, const control::View& then, const control::View& now) {
  if (paths.slower_max() <= 1) return false;
  const CostModel model_then = ModelOf(paths, RoutesOf(then), then.plan());
  const CostModel model_now = ModelOf(paths, RoutesOf(now), now.plan());
  return AnySize(then, now, [&](std::uint64_t bytes, Algorithm algorithm_then, Algorithm algorithm_now) {
    return model_now.Money(algorithm_now, bytes) > kGainRatio * model_then.Money(algorithm_then, bytes);
  });
}

// Returns `view` with the retention limit of `like`, for comparisons that ignore it.
control::View WithRetention(control::View view, const control::View& like) {
  view.mutable_plan()->set_retained_bytes_max(like.plan().retained_bytes_max());
  return view;
}

// Returns whether `now` has unequal shares that are no longer justified: `then` has equal ones, and is no slower.
bool AreSharesOutlived(const PathMatrix& paths, const control::View& then, const control::View& current) {
  const control::View now = WithRetention(current, then);
  if (now.shares_size() == 0 || then.shares_size() > 0 || IsFaster(paths, now, then)) return false;
  const auto seconds = [&](const control::View& view) {
    return ModelOf(paths, RoutesOf(view), view.plan()).Seconds(Algorithm::kDirect, kTableBytesMax);
  };
  return seconds(then) <= seconds(now);
}

// Retention costs one more copy in the daemon, and one to the trainer.
std::uint64_t RetainedBytes(double delay, const control::Plan& current, const control::Plan& plan) {
  constexpr double kCopiedPerSecond = 500e6;
  const auto pays = delay > 0 ? static_cast<std::uint64_t>(kCopiedPerSecond * delay) : current.retained_bytes_max();
  return std::max(plan.small_bytes_max(), std::min(pays, plan.retained_bytes_max()));
}

// Returns the view with this ring, and the best routes and table for it.
control::View ViewWith(const std::vector<std::uint32_t>& ring, const PathMatrix& paths, const control::Plan& plan,
                       const control::View& current) {
  const Routes routes = RoutesWith(ring, paths, RingSearch::kGreedy);
  control::View view = current;
  SetRoutes(routes, &view);
  *view.mutable_plan() = plan;
  PlanOperations(paths, routes, current, view.mutable_plan());
  return view;
}

}  // namespace

void SortByRank(std::vector<control::PeerInfo>& members) {
  std::sort(members.begin(), members.end(), [](const control::PeerInfo& a, const control::PeerInfo& b) {
    return std::forward_as_tuple(a.site(), a.peer_id()) < std::forward_as_tuple(b.site(), b.peer_id());
  });
}

std::vector<std::uint32_t> RingOrder(const std::vector<control::PeerInfo>& members, const PathMatrix& paths,
                                     const control::View& current) {
  std::map<std::uint64_t, std::uint32_t> rank_of;
  for (const control::PeerInfo& member : members) {
    rank_of.emplace(member.peer_id(), static_cast<std::uint32_t>(rank_of.size()));
  }
  std::vector<std::uint32_t> kept;
  for (const std::uint32_t rank : current.ring()) {
    const auto found = rank_of.find(current.members(static_cast<int>(rank)).peer_id());
    if (found != rank_of.end()) kept.push_back(found->second);
  }
  if (kept.size() < members.size()) return FindRing(paths).order;
  std::rotate(kept.begin(), std::find(kept.begin(), kept.end(), 0), kept.end());
  return kept;
}

Routes RoutesWith(const std::vector<std::uint32_t>& ring, const PathMatrix& paths, RingSearch search) {
  Routes routes{.ring = ring, .shares = DirectShares(paths), .rings = FindRings(paths, ring, search)};
  ChooseSites(paths, &routes);
  return routes;
}

Routes RoutesOf(const control::View& view) {
  Routes routes{.ring = {view.ring().begin(), view.ring().end()},
                .shares = {view.shares().begin(), view.shares().end()},
                .sites = {view.sites().begin(), view.sites().end()},
                .site_shares = {view.site_shares().begin(), view.site_shares().end()}};
  for (const control::WeightedRing& ring : view.rings()) {
    routes.rings.push_back({.order = {ring.order().begin(), ring.order().end()}, .share = ring.share()});
  }
  return routes;
}

void SetRoutes(const Routes& routes, control::View* view) {
  view->mutable_ring()->Assign(routes.ring.begin(), routes.ring.end());
  view->mutable_shares()->Assign(routes.shares.begin(), routes.shares.end());
  view->mutable_sites()->Assign(routes.sites.begin(), routes.sites.end());
  view->mutable_site_shares()->Assign(routes.site_shares.begin(), routes.site_shares.end());
  view->clear_rings();
  for (const WeightedRing& ring : routes.rings) {
    control::WeightedRing& weighted = *view->add_rings();
    weighted.mutable_order()->Assign(ring.order.begin(), ring.order.end());
    weighted.set_share(ring.share);
  }
}

CostModel ModelOf(const PathMatrix& paths, const Routes& routes, const control::Plan& plan) {
  return {paths,
          routes,
          {.segment_bytes_max = plan.segment_bytes_max(),
           .retained_bytes_max = std::max(plan.small_bytes_max(), plan.retained_bytes_max()),
           .eager_bytes_max = plan.eager_bytes_max()}};
}

void PlanOperations(const PathMatrix& paths, const Routes& routes, const control::View& current, control::Plan* plan) {
  const double delay = LongestDelay(paths);
  plan->set_retained_bytes_max(RetainedBytes(delay, current.plan(), *plan));
  if (delay > 0) {
    const CostModel model = ModelOf(paths, routes, *plan);
    SetRules(model.BuildTable(OpKind::kAllReduce), plan->mutable_algorithms());
    SetRules(model.BuildTable(OpKind::kAllGather), plan->mutable_gathers());
    SetRules(model.BuildTable(OpKind::kReduceScatter), plan->mutable_scatters());
    SetRules(model.BuildTable(OpKind::kBroadcast), plan->mutable_broadcasts());
    SetRules(model.BuildTable(OpKind::kReduce), plan->mutable_reduces());
  } else if (current.plan().algorithms_size() > 0) {
    *plan->mutable_algorithms() = current.plan().algorithms();
    *plan->mutable_gathers() = current.plan().gathers();
    *plan->mutable_scatters() = current.plan().scatters();
    *plan->mutable_broadcasts() = current.plan().broadcasts();
    *plan->mutable_reduces() = current.plan().reduces();
  } else {
    const std::uint64_t direct_max = std::max(plan->small_bytes_max() + 1, kDirectBytesMax);
    SetRules({{plan->small_bytes_max(), Algorithm::kOneShot}, {direct_max, Algorithm::kDirect}},
             plan->mutable_algorithms());
    SetRules({{direct_max, Algorithm::kDirect}}, plan->mutable_gathers());
    SetRules({{direct_max, Algorithm::kDirect}}, plan->mutable_scatters());
    for (auto* const rules : {plan->mutable_broadcasts(), plan->mutable_reduces()})
      SetRules({{plan->small_bytes_max(), Algorithm::kNaive}, {direct_max, Algorithm::kDirect}}, rules);
  }
}

bool AreFarApart(const PathMatrix& paths) {
  for (std::size_t peer = 1; peer < paths.size(); ++peer) {
    if (paths.crosses(0, peer)) return true;
  }
  return 2 * LongestDelay(paths) >= std::chrono::duration<double>(kFarRoundTrip).count();
}

Algorithm AlgorithmFor(const control::Plan& plan, std::uint64_t bytes) {
  for (const control::AlgorithmRule& rule : plan.algorithms()) {
    if (bytes <= rule.bytes_upto()) return static_cast<Algorithm>(rule.algorithm());
  }
  return Algorithm::kRing;
}

bool Improve(const PathMatrix& paths, const control::Plan& plan, control::View* view) {
  const std::vector<std::uint32_t> now(view->ring().begin(), view->ring().end());
  const std::vector<std::uint32_t> ring = FindRing(paths).order;
  if (WorthSwitching(paths, now, ring)) {
    control::View turned = ViewWith(ring, paths, plan, *view);
    const control::View before = WithRetention(*view, turned);
    const bool saves = IsCheaper(paths, before, turned) && !IsFaster(paths, turned, before);
    if (!IsFaster(paths, before, turned) && !saves) {  // routes beside the new ring may be worse
      *view = std::move(turned);
      return true;
    }
  }
  control::View better = ViewWith(now, paths, plan, *view);
  if (!IsFaster(paths, better, *view) && !IsCheaper(paths, better, *view) && !AreSharesOutlived(paths, better, *view)) {
    return false;
  }
  *view = std::move(better);
  return true;
}

}  // namespace ringway
