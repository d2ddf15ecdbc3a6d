#include "master/planning/topology.h"

#include <gtest/gtest.h>
#include <ringway/types.h>

#include <initializer_list>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "master/planning/path_book.h"
#include "tests/sanitized.h"

namespace ringway {
namespace {

std::vector<control::PeerInfo> Members(std::initializer_list<std::pair<std::uint64_t, const char*>> peers) {
  std::vector<control::PeerInfo> members;
  for (const auto& [id, site] : peers) {
    members.emplace_back().set_peer_id(id);
    members.back().set_site(site);
  }
  SortByRank(members);
  return members;
}

PathMatrix AllAway(const std::vector<control::PeerInfo>& members, Duration round_trip) {
  PathMatrix paths = PathBook().Between(members);
  ForEachPath(members.size(), [&](std::uint32_t from, std::uint32_t to) {
    paths.set_delay(from, to, std::chrono::duration<double>(round_trip).count() / 2);
  });
  return paths;
}

control::Plan SomePlan() {
  control::Plan plan;
  plan.set_segment_bytes_max(256 << 10);
  plan.set_small_bytes_max(64 << 10);
  plan.set_eager_bytes_max(4 << 20);
  return plan;
}

TEST(Topology, RingCrossesBetweenTwoSitesTwiceHoweverPeersJoined) {
  const auto members = Members({{1, "us"}, {2, "eu"}, {3, "us"}, {4, "eu"}, {5, "us"}, {6, "eu"}});
  const std::vector<std::uint32_t> ring = RingOrder(members, PathBook().Between(members), {});
  int crossings = 0;
  for (std::size_t i = 0; i < ring.size(); ++i) {
    crossings += members[ring[i]].site() != members[ring[(i + 1) % ring.size()]].site() ? 1 : 0;
  }
  EXPECT_EQ(crossings, 2);
}

TEST(Topology, RingAvoidsTheLongWay) {
  const auto members = Members({{1, ""}, {2, ""}, {3, ""}, {4, ""}});
  PathMatrix paths = AllAway(members, std::chrono::milliseconds(10));
  paths.set_delay(0, 1, 0.15);
  paths.set_delay(1, 0, 0.15);
  const auto ring = RingOrder(members, paths, {});
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NE(std::set({ring[i], ring[(i + 1) % 4]}), std::set({0U, 1U}));
}

TEST(Topology, RecoveryKeepsTheRingWithoutThoseWhoAreGone) {
  control::View current;
  for (const std::uint64_t id : {10, 11, 12, 13}) current.add_members()->set_peer_id(id);
  for (const std::uint32_t rank : {0, 2, 1, 3}) current.add_ring(rank);
  const auto rest = Members({{11, ""}, {12, ""}, {13, ""}});
  // 12 -> 11 -> 13, turned to begin with rank 0 (11).
  EXPECT_EQ(RingOrder(rest, PathBook().Between(rest), current), (std::vector<std::uint32_t>{0, 2, 1}));
  const auto grown = Members({{11, ""}, {12, ""}, {13, ""}, {14, ""}});
  EXPECT_EQ(RingOrder(grown, PathBook().Between(grown), current), (std::vector<std::uint32_t>{0, 1, 2, 3}));
}

TEST(Topology, DelaysDecideWhichAlgorithmIsRight) {
  const auto members = Members({{1, "a"}, {2, "b"}, {3, "c"}, {4, "d"}});
  const Routes ring = {.ring = {0, 1, 2, 3}};
  control::Plan far = SomePlan();
  PlanOperations(AllAway(members, std::chrono::milliseconds(100)), ring, {}, &far);
  EXPECT_EQ(AlgorithmFor(far, 0), Algorithm::kOneShot);
  EXPECT_EQ(AlgorithmFor(far, 4096), Algorithm::kOneShot);
  EXPECT_EQ(AlgorithmFor(far, 1 << 20), Algorithm::kOneShot);
  EXPECT_EQ(AlgorithmFor(far, 8 << 20), Algorithm::kDirect);
  EXPECT_EQ(AlgorithmFor(far, 256 << 20), Algorithm::kRing);
  control::Plan near = SomePlan();
  PlanOperations(AllAway(members, std::chrono::microseconds(100)), ring, {}, &near);
  EXPECT_EQ(AlgorithmFor(near, 64), Algorithm::kOneShot);
  EXPECT_NE(AlgorithmFor(near, 64 << 10), Algorithm::kOneShot);
  control::Plan here = SomePlan();
  PlanOperations(AllAway(members, std::chrono::microseconds(30)), ring, {}, &here);
  EXPECT_EQ(AlgorithmFor(here, 64 << 20), Algorithm::kRing);
}

TEST(Topology, ResultsAreRetainedWhereThatTakesLessTimeThanTheExchangeOfDone) {
  const auto members = Members({{1, "a"}, {2, "b"}});
  const auto retained = [&](Duration round_trip, const control::View& current = {}) {
    control::Plan plan = SomePlan();
    plan.set_retained_bytes_max(16 << 20);
    PlanOperations(AllAway(members, round_trip), {.ring = {0, 1}}, current, &plan);
    return plan.retained_bytes_max();
  };
  EXPECT_EQ(retained(std::chrono::microseconds(30)), 64u << 10) << "what is small, in any case";
  EXPECT_EQ(retained(std::chrono::milliseconds(4)), 1'000'000u);
  EXPECT_EQ(retained(std::chrono::milliseconds(100)), 16u << 20) << "no more than is allowed";
  EXPECT_EQ(retained(Duration()), 64u << 10) << "nothing is known";
  control::View current;
  current.mutable_plan()->set_retained_bytes_max(2 << 20);
  EXPECT_EQ(retained(Duration(), current), 2u << 20);
}

TEST(Topology, WithoutMeasurementsThePlanThatWasStays) {
  const auto members = Members({{1, ""}, {2, ""}});
  const PathMatrix unknown = PathBook().Between(members);
  control::Plan plan = SomePlan();
  PlanOperations(unknown, {.ring = {0, 1}}, {}, &plan);
  EXPECT_EQ(AlgorithmFor(plan, 64 << 10), Algorithm::kOneShot);
  EXPECT_EQ(AlgorithmFor(plan, 1 << 20), Algorithm::kDirect);
  EXPECT_EQ(AlgorithmFor(plan, 1 << 30), Algorithm::kRing);
  control::View current;
  current.mutable_plan()->add_algorithms()->set_bytes_upto(7);
  PlanOperations(unknown, {.ring = {0, 1}}, current, &plan);
  ASSERT_EQ(plan.algorithms_size(), 1);
  EXPECT_EQ(plan.algorithms(0).bytes_upto(), 7u);
}

control::View ViewOf(const std::vector<control::PeerInfo>& members, const PathMatrix& paths) {
  control::View view;
  *view.mutable_plan() = SomePlan();
  for (const control::PeerInfo& member : members) *view.add_members() = member;
  const Routes routes = RoutesWith(RingOrder(members, paths, view), paths, RingSearch::kStrides);
  SetRoutes(routes, &view);
  PlanOperations(paths, routes, {}, view.mutable_plan());
  return view;
}

TEST(Topology, AMeasuredSlowLinkIsLeftForABetterRing) {
  const auto members = Members({{1, "a"}, {2, "b"}, {3, "c"}, {4, "d"}});
  PathMatrix paths = AllAway(members, std::chrono::milliseconds(100));
  control::View view = ViewOf(members, paths);
  ForEachPath(4, [&](std::uint32_t from, std::uint32_t to) { paths.set_rate(from, to, 50e6); });
  paths.set_rate(0, 1, 5e6);
  paths.set_rate(1, 0, 5e6);
  ASSERT_TRUE(Improve(paths, SomePlan(), &view));
  EXPECT_EQ(std::vector<std::uint32_t>(view.ring().begin(), view.ring().end()),
            (std::vector<std::uint32_t>{0, 2, 1, 3}));
  const std::string improved = view.SerializeAsString();
  EXPECT_FALSE(Improve(paths, SomePlan(), &view)) << "it stays";
  EXPECT_EQ(view.SerializeAsString(), improved);
}

// A ring that is better by itself may leave less for the others beside it.
TEST(Topology, WhatImprovesIsOverATenthSlowerAtNoSize) {
  const auto members = Members({{1, "a"}, {2, "b"}, {3, "c"}, {4, "d"}});
  std::mt19937 random(1);
  const auto any_of = [&](std::initializer_list<double> values) {
    return values.begin()[std::uniform_int_distribution<std::size_t>(0, values.size() - 1)(random)];
  };
  int turns = 0;
  for (int world = 0; world < (kSanitized ? 50 : 500); ++world) {
    PathMatrix paths = AllAway(members, std::chrono::milliseconds(100));
    ForEachPath(4, [&](std::uint32_t from, std::uint32_t to) {
      paths.set_rate(from, to, any_of({40e6, 100e6, 100e6, 100e6}));
      paths.set_delay(from, to, any_of({0.02, 0.05, 0.05}));
    });
    for (std::size_t i = 0; i < 4; ++i) paths.set_uplink(i, 400e6);
    control::View view = ViewOf(members, paths);
    const Routes routes = RoutesWith({0, 1, 2, 3}, paths, RingSearch::kGreedy);
    SetRoutes(routes, &view);
    PlanOperations(paths, routes, {}, view.mutable_plan());
    const control::View before = view;
    if (!Improve(paths, SomePlan(), &view)) continue;
    turns += view.ring(1) != 1 || view.ring(2) != 2;
    const CostModel then = ModelOf(paths, RoutesOf(view), view.plan());
    const CostModel now = ModelOf(paths, routes, before.plan());
    for (std::uint64_t bytes = kTableBytesMin; bytes <= kTableBytesMax; bytes *= 2) {
      EXPECT_LE(then.Seconds(AlgorithmFor(view.plan(), bytes), bytes),
                1.1 * now.Seconds(AlgorithmFor(before.plan(), bytes), bytes))
          << "world " << world << ", " << bytes << " bytes";
    }
  }
  EXPECT_GT(turns, kSanitized ? 5 : 50);
}

TEST(Topology, ASlowUplinkChangesTheSharesAndNothingElseAndTheyStay) {
  const auto members = Members({{1, "a"}, {2, "b"}, {3, "c"}, {4, "d"}});
  PathMatrix paths = AllAway(members, std::chrono::milliseconds(100));
  ForEachPath(4, [&](std::uint32_t from, std::uint32_t to) { paths.set_rate(from, to, 100e6); });
  control::View view = ViewOf(members, paths);
  EXPECT_EQ(view.shares_size(), 0);
  for (std::size_t peer = 0; peer < 4; ++peer) paths.set_uplink(peer, peer == 2 ? 50e6 : 100e6);
  const std::vector<std::uint32_t> ring(view.ring().begin(), view.ring().end());
  ASSERT_TRUE(Improve(paths, SomePlan(), &view));
  EXPECT_EQ(std::vector<std::uint32_t>(view.ring().begin(), view.ring().end()), ring);
  ASSERT_EQ(view.shares_size(), 4);
  EXPECT_LT(view.shares(2), view.shares(0));
  EXPECT_EQ(AlgorithmFor(view.plan(), 256 << 20), Algorithm::kDirect);
  EXPECT_FALSE(Improve(paths, SomePlan(), &view)) << "they stay";
  paths.set_uplink(2, 100e6);
  ASSERT_TRUE(Improve(paths, SomePlan(), &view));
  EXPECT_EQ(view.shares_size(), 0);
}

TEST(Topology, SharesGoWithTheRatesThatSpokeForThem) {
  const auto members = Members({{1, "a"}, {2, "b"}, {3, "c"}, {4, "d"}});
  PathMatrix paths = AllAway(members, std::chrono::milliseconds(100));
  ForEachPath(4, [&](std::uint32_t from, std::uint32_t to) { paths.set_rate(from, to, 100e6); });
  for (std::size_t i = 0; i < 4; ++i) paths.set_uplink(i, 100e6);
  paths.set_uplink(2, 80e6);
  control::View view = ViewOf(members, paths);
  ASSERT_EQ(view.shares_size(), 4);
  for (double rate = 80e6; rate < 100e6; rate *= 1.01) {
    paths.set_uplink(2, rate);
    Improve(paths, SomePlan(), &view);
  }
  EXPECT_EQ(view.shares_size(), 0) << "they were worth less than a tenth by then, and cost some";
  paths.set_uplink(2, 95e6);
  EXPECT_FALSE(Improve(paths, SomePlan(), &view)) << "no new ones for so little";
}

TEST(Topology, RatesAlikeChangeTheTableOnlyAndNoiseChangesNothing) {
  const auto members = Members({{1, "a"}, {2, "b"}, {3, "c"}, {4, "d"}});
  PathMatrix paths = AllAway(members, std::chrono::milliseconds(100));
  control::View view = ViewOf(members, paths);
  EXPECT_FALSE(Improve(paths, SomePlan(), &view));
  ForEachPath(4, [&](std::uint32_t from, std::uint32_t to) { paths.set_rate(from, to, 2e9); });
  ASSERT_TRUE(Improve(paths, SomePlan(), &view)) << "delays weigh more than at the rate that was assumed";
  EXPECT_EQ(AlgorithmFor(view.plan(), 64 << 20), Algorithm::kDirect);
  double rate = 2e9;
  ForEachPath(4, [&](std::uint32_t from, std::uint32_t to) { paths.set_rate(from, to, rate += 10e6); });
  EXPECT_FALSE(Improve(paths, SomePlan(), &view));
}

}  // namespace
}  // namespace ringway
