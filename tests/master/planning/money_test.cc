// Plans that are to be cheap: the schedule of least money among those that are almost as fast as the fastest.
#include <gtest/gtest.h>
#include <ringway/types.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "master/planning/price_list.h"
#include "master/planning/ring_order.h"
#include "master/planning/topology.h"
#include "tests/master/planning/path_worlds.h"

namespace ringway {
namespace {

constexpr double kPerByte = 1e-9;

// Sites of `peers` hosts each; 50 ms and `between` bytes a second from site to site, near and fast inside.
PathMatrix Sites(std::uint32_t sites, std::uint32_t peers, double between, double near = 1e-4) {
  PathMatrix paths = UniformWorld(sites * peers, 0.05, 125e6);
  for (std::uint32_t peer = 0; peer < paths.size(); ++peer) paths.set_site(peer, peer / peers);
  ForEachPath(paths.size(), [&](std::uint32_t from, std::uint32_t to) {
    const bool inside = !paths.crosses(from, to);
    if (inside) paths.set_delay(from, to, near);
    paths.set_rate(from, to, inside ? 1e9 : between);
    paths.set_money(from, to, inside ? 0 : kPerByte);
  });
  return paths;
}

control::Plan MoneyPlan() {
  control::Plan plan;
  plan.set_segment_bytes_max(256 << 10);
  plan.set_small_bytes_max(64 << 10);
  plan.set_eager_bytes_max(4 << 20);
  return plan;
}

control::View ViewFor(const PathMatrix& paths) {
  control::View view;
  *view.mutable_plan() = MoneyPlan();
  for (std::uint64_t id = 1; id <= paths.size(); ++id) view.add_members()->set_peer_id(id);
  const Routes routes = RoutesWith(FindRing(paths).order, paths, RingSearch::kGreedy);
  SetRoutes(routes, &view);
  PlanOperations(paths, routes, {}, view.mutable_plan());
  return view;
}

TEST(Money, IsThatOfEachByteThatCrosses) {
  const PathMatrix paths = Sites(2, 2, 125e6);
  const CostModel model(paths, RoutesWith(FindRing(paths).order, paths, RingSearch::kGreedy));
  constexpr double kBytes = 64 << 20;
  // By the sites' hosts that meet: each half of the buffer leaves each site once for its sum, or as it.
  EXPECT_NEAR(model.Money(Algorithm::kHierarchical, 64 << 20), 2 * kBytes * kPerByte, 1e-12);
  // Two of a ring's links cross, and carry three quarters of the buffer twice.
  EXPECT_NEAR(model.Money(Algorithm::kRing, 64 << 20), 2 * 1.5 * kBytes * kPerByte, 1e-12);
  // Each rank's quarter comes from two ranks of the other site, and goes to two.
  EXPECT_NEAR(model.Money(Algorithm::kDirect, 64 << 20), 4 * kBytes * kPerByte, 1e-12);
  EXPECT_EQ(CostModel(UniformWorld(3, 0.05, 1e6), {.ring = Identity(3)}).Money(Algorithm::kRing, 1 << 20), 0);
}

TEST(Money, DecidesWithinTheRatioAndNeverBeyond) {
  int saved = 0;
  // Worlds where it saves are few: all of them on every machine.
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    std::mt19937_64 random(seed);
    PathMatrix paths = RandomWorld(2 + seed % 7, seed);
    ForEachPath(paths.size(), [&](std::uint32_t from, std::uint32_t to) {
      paths.set_money(from, to, static_cast<double>(random() % 5) * kPerByte);
    });
    const Routes routes = RoutesWith(FindRing(paths).order, paths, RingSearch::kGreedy);
    const CostModel fast(paths, routes);
    paths.set_slower_max(kCheapRatio);
    const CostModel cheap(paths, routes);
    for (const std::uint64_t bytes : {4 * kKiB, 256 * kKiB, 4 * kMiB, 64 * kMiB}) {
      SCOPED_TRACE("seed " + std::to_string(seed) + ", bytes " + std::to_string(bytes));
      double least = fast.QueuedSeconds(fast.Best(bytes), bytes);
      for (const Algorithm algorithm : kAlgorithms) {
        if (algorithm != Algorithm::kOneShot || bytes <= CostOptions().eager_bytes_max)
          least = std::min(least, fast.QueuedSeconds(algorithm, bytes));
      }
      const Algorithm chosen = cheap.Best(bytes);
      ASSERT_LE(cheap.QueuedSeconds(chosen, bytes), kCheapRatio * least * (1 + 1e-9));
      for (const Algorithm algorithm : kAlgorithms) {
        const bool is_allowed = algorithm != Algorithm::kOneShot || bytes <= CostOptions().eager_bytes_max;
        if (!is_allowed || fast.QueuedSeconds(algorithm, bytes) > kCheapRatio * least) continue;
        ASSERT_LE(cheap.Money(chosen, bytes), cheap.Money(algorithm, bytes) * (1 + 1e-6)) << NameOf(algorithm);
      }
      saved += cheap.Money(chosen, bytes) < 0.99 * fast.Money(fast.Best(bytes), bytes) ? 1 : 0;
    }
  }
  EXPECT_GT(saved, 0);
}

TEST(Money, TheTableHasTheChoiceOfEachSize) {
  PathMatrix paths = Sites(3, 2, 60e6);
  paths.set_slower_max(kCheapRatio);
  const CostModel model(paths, RoutesWith(FindRing(paths).order, paths, RingSearch::kGreedy));
  const std::vector<TableEntry> table = model.BuildTable();
  for (std::uint64_t bytes = kTableBytesMin; bytes <= kTableBytesMax; bytes *= 4) {
    const auto entry =
        std::find_if(table.begin(), table.end(), [&](const TableEntry& one) { return bytes <= one.bytes_upto; });
    ASSERT_NE(entry, table.end());
    EXPECT_EQ(entry->algorithm, model.Best(bytes)) << bytes;
  }
}

TEST(Money, HierarchicalIsTakenWhereItSavesTrafficAndIsAlmostAsFast) {
  PathMatrix paths = Sites(2, 2, 1e9);
  const control::View fast = ViewFor(paths);
  paths.set_slower_max(2);
  const control::View cheap = ViewFor(paths);
  const CostModel model = ModelOf(paths, RoutesOf(cheap), cheap.plan());
  int saved = 0;
  for (std::uint64_t bytes = kTableBytesMin; bytes <= kTableBytesMax; bytes *= 4) {
    SCOPED_TRACE(bytes);
    const Algorithm was = AlgorithmFor(fast.plan(), bytes);
    const Algorithm is = AlgorithmFor(cheap.plan(), bytes);
    EXPECT_LE(model.Money(is, bytes), model.Money(was, bytes) * (1 + 1e-9));
    EXPECT_LE(model.QueuedSeconds(is, bytes), 2 * model.QueuedSeconds(was, bytes));
    saved += is == Algorithm::kHierarchical && model.Money(is, bytes) < 0.7 * model.Money(was, bytes) ? 1 : 0;
  }
  EXPECT_GT(saved, 0);
}

// From rank 0 to three ranks of the other site: naive crosses three times, a tree by rank twice and takes 4% longer.
TEST(Money, BroadcastAndReduceTakeTheWayThatCrossesLeast) {
  PathMatrix paths = Sites(2, 3, 30e6, 2e-3);
  const auto algorithm_for = [](const auto& rules, std::uint64_t bytes) {
    for (const control::AlgorithmRule& rule : rules) {
      if (bytes <= rule.bytes_upto()) return static_cast<Algorithm>(rule.algorithm());
    }
    return Algorithm::kRing;
  };
  const auto money_of = [&](OpKind kind, const control::View& view, std::uint64_t bytes) {
    const auto& rules = kind == OpKind::kBroadcast ? view.plan().broadcasts() : view.plan().reduces();
    const FlowModel model(WithAssumptions(paths));
    collective::Routes routes;
    for (const std::uint32_t rank : view.ring()) routes.ring.emplace_back(rank);
    return model.FlowsOf(collective::TransfersOf(kind, algorithm_for(rules, bytes), routes)).money;
  };
  const control::View fast = ViewFor(paths);
  paths.set_slower_max(kCheapRatio);
  const control::View cheap = ViewFor(paths);
  for (const OpKind kind : {OpKind::kBroadcast, OpKind::kReduce}) {
    double saved = 0;
    for (std::uint64_t bytes = kTableBytesMin; bytes <= kTableBytesMax; bytes *= 4) {
      const double less = money_of(kind, fast, bytes) - money_of(kind, cheap, bytes);
      EXPECT_GE(less, -1e-15) << NameOf(kind) << " of " << bytes;
      saved = std::max(saved, less);
    }
    EXPECT_GT(saved, 0) << NameOf(kind);
  }
}

TEST(Money, APlanThatCostsLessReplacesAnotherOnceAndStays) {
  PathMatrix paths = Sites(2, 2, 1e9);
  control::View view = ViewFor(paths);
  EXPECT_FALSE(Improve(paths, MoneyPlan(), &view)) << "as fast as can be, whatever it costs";
  paths.set_slower_max(2);
  ASSERT_TRUE(Improve(paths, MoneyPlan(), &view));
  EXPECT_EQ(AlgorithmFor(view.plan(), 256 * kMiB), Algorithm::kHierarchical);
  EXPECT_FALSE(Improve(paths, MoneyPlan(), &view));
}

}  // namespace
}  // namespace ringway
