#include "daemon/agreement/view.h"

#include <gtest/gtest.h>

#include <vector>

#include "proto/collective/shares.h"

namespace ringway::agreement {
namespace {

control::View ViewOf(std::uint32_t world) {
  control::View view;
  for (std::uint32_t rank = 0; rank < world; ++rank) {
    view.add_members()->set_peer_id(rank + 1);
    view.add_ring(world - 1 - rank);
  }
  return view;
}

Result<View> WithShares(std::uint32_t world, const std::vector<std::uint32_t>& shares) {
  control::View view = ViewOf(world);
  view.mutable_shares()->Assign(shares.begin(), shares.end());
  return ViewFrom(view, PeerId(1));
}

TEST(View, TakesRingAndSharesAsTheyAre) {
  const auto view = WithShares(3, {0, 10'000, kWholeShare - 10'000});
  ASSERT_TRUE(view.ok()) << view.status().text();
  EXPECT_EQ(view.value().routes.ring, (std::vector{Rank(2), Rank(1), Rank(0)}));
  EXPECT_EQ(view.value().routes.shares, (std::vector<std::uint32_t>{0, 10'000, kWholeShare - 10'000}));
  EXPECT_TRUE(WithShares(3, {}).ok());
}

TEST(View, RefusesSharesThatAreNone) {
  EXPECT_FALSE(WithShares(3, {kWholeShare}).ok()) << "too few";
  EXPECT_FALSE(WithShares(3, {0, 0, 0, kWholeShare}).ok()) << "too many";
  EXPECT_FALSE(WithShares(3, {0, 0, 0}).ok()) << "nothing in all";
  EXPECT_FALSE(WithShares(3, {kWholeShare, 1, 0}).ok()) << "more than all";
  EXPECT_FALSE(WithShares(2, {1, ~std::uint32_t{0}}).ok()) << "all, if sums could overflow";
  EXPECT_FALSE(WithShares(6, {kWholeShare / 2 + 1, kWholeShare / 2 - 1, 0, 0, 0, 0}).ok()) << "too much for one";
  EXPECT_TRUE(WithShares(6, {kWholeShare / 2, kWholeShare / 2, 0, 0, 0, 0}).ok());
}

TEST(View, TakesItsSitesElseThoseOfTheLabels) {
  control::View view = ViewOf(4);
  for (const int rank : {2, 3}) view.mutable_members(rank)->set_site("west");
  EXPECT_EQ(ViewFrom(view, PeerId(1)).value().routes.sites, (std::vector<std::uint32_t>{0, 0, 1, 1}));
  for (const std::uint32_t site : {0, 1, 2, 1}) view.add_sites(site);
  for (const std::uint32_t share : {0u, 5u, kWholeShare - 5}) view.add_site_shares(share);
  const auto taken = ViewFrom(view, PeerId(1));
  ASSERT_TRUE(taken.ok()) << taken.status().text();
  EXPECT_EQ(taken.value().routes.sites, (std::vector<std::uint32_t>{0, 1, 2, 1}));
  EXPECT_EQ(taken.value().routes.site_shares, (std::vector<std::uint32_t>{0, 5, kWholeShare - 5}));
  view.set_site_shares(2, kWholeShare);
  EXPECT_FALSE(ViewFrom(view, PeerId(1)).ok()) << "more than the whole";
  view.set_site_shares(2, kWholeShare - 5);
  view.set_sites(2, 3);
  EXPECT_FALSE(ViewFrom(view, PeerId(1)).ok()) << "no site 2";
  view.set_sites(2, ~0u);
  EXPECT_FALSE(ViewFrom(view, PeerId(1)).ok());
  view.set_sites(2, 2);
  view.add_sites(0);
  EXPECT_FALSE(ViewFrom(view, PeerId(1)).ok()) << "one too many";
}

TEST(View, OneSiteMayNotOwnWhatOthersCannotPutAside) {
  control::View view = ViewOf(6);
  for (std::uint32_t site = 0; site < 6; ++site) view.add_sites(site);
  for (const std::uint32_t share : {SiteShareMax(6) + 1, kWholeShare - SiteShareMax(6) - 1, 0u, 0u, 0u, 0u}) {
    view.add_site_shares(share);
  }
  EXPECT_FALSE(ViewFrom(view, PeerId(1)).ok());
}

TEST(View, EachCollectiveHasItsTable) {
  control::View view = ViewOf(3);
  const auto add = [](auto* rules, Algorithm algorithm) {
    control::AlgorithmRule& rule = *rules->Add();
    rule.set_bytes_upto(100);
    rule.set_algorithm(static_cast<std::uint32_t>(algorithm));
  };
  add(view.mutable_plan()->mutable_algorithms(), Algorithm::kTree);
  add(view.mutable_plan()->mutable_gathers(), Algorithm::kDirect);
  add(view.mutable_plan()->mutable_scatters(), Algorithm::kTree);
  const Plan plan = PlanFrom(view.plan());
  EXPECT_EQ(plan.AlgorithmFor(OpKind::kAllReduce, 100), Algorithm::kTree);
  EXPECT_EQ(plan.AlgorithmFor(OpKind::kAllReduce, 101), Algorithm::kRing);
  EXPECT_EQ(plan.AlgorithmFor(OpKind::kUpdateView, 0), Algorithm::kTree);
  EXPECT_EQ(plan.AlgorithmFor(OpKind::kAllGather, 100), Algorithm::kDirect);
  EXPECT_EQ(plan.AlgorithmFor(OpKind::kReduceScatter, 100), Algorithm::kRing) << "it has no tree";
}

TEST(View, TakesRingsThatAddUpAndRefusesOthers) {
  control::View view = ViewOf(3);
  for (const std::uint32_t share : {kWholeShare - 5, 5u}) {
    view.add_rings()->set_share(share);
    *view.mutable_rings(view.rings_size() - 1)->mutable_order() = view.ring();
  }
  const auto taken = ViewFrom(view, PeerId(1));
  ASSERT_TRUE(taken.ok()) << taken.status().text();
  ASSERT_EQ(taken.value().routes.rings.size(), 2u);
  EXPECT_EQ(taken.value().routes.rings[1].order, taken.value().routes.ring);
  EXPECT_EQ(taken.value().routes.rings[1].share, 5u);
  view.mutable_rings(1)->set_share(6);
  EXPECT_FALSE(ViewFrom(view, PeerId(1)).ok()) << "more than the whole";
  view.mutable_rings(1)->set_share(5);
  view.mutable_rings(1)->mutable_order()->RemoveLast();
  EXPECT_FALSE(ViewFrom(view, PeerId(1)).ok()) << "a rank is missing";
  view.mutable_rings(1)->add_order(3);
  EXPECT_FALSE(ViewFrom(view, PeerId(1)).ok()) << "no rank";
}

TEST(View, RefusesMoreRingsThanAnybodyPlans) {
  control::View view = ViewOf(3);
  for (std::size_t i = 0; i <= kRingsMax; ++i) {
    view.add_rings()->set_share(i == 0 ? kWholeShare : 0);
    *view.mutable_rings(view.rings_size() - 1)->mutable_order() = view.ring();
  }
  EXPECT_FALSE(ViewFrom(view, PeerId(1)).ok());
  view.mutable_rings()->RemoveLast();
  EXPECT_TRUE(ViewFrom(view, PeerId(1)).ok());
}

TEST(View, RefusesARingThatIsNone) {
  control::View view = ViewOf(3);
  view.set_ring(0, 1);
  EXPECT_FALSE(ViewFrom(view, PeerId(1)).ok());
}

}  // namespace
}  // namespace ringway::agreement
