#include "master/planning/route_sites.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "master/planning/cost_model.h"
#include "proto/collective/shares.h"
#include "tests/master/planning/path_worlds.h"

namespace ringway {
namespace {

// `hosts` of `peers` each, 100 Mbit/s and 20 ms apart, one after the other; no sites.
PathMatrix Hosts(std::uint32_t hosts, std::uint32_t peers) {
  PathMatrix paths(hosts * peers);
  for (std::uint32_t peer = 0; peer < paths.size(); ++peer) {
    paths.set_host(peer, peer / peers);
    paths.set_uplink(peer, 12.5e6);
    paths.set_downlink(peer, 12.5e6);
  }
  ForEachPath(paths.size(), [&](std::uint32_t from, std::uint32_t to) {
    const bool inside = paths.shares_host(from, to);
    paths.set_delay(from, to, inside ? 20e-6 : 0.02);
    paths.set_rate(from, to, inside ? 4e9 : 1e9);
  });
  return paths;
}

Routes ChosenFor(const PathMatrix& paths) {
  Routes routes{.ring = Identity(paths.size())};
  ChooseSites(paths, &routes);
  return routes;
}

TEST(RouteSites, AreTheHostsWhereNobodyNamedSites) {
  const PathMatrix paths = Hosts(2, 4);
  const Routes routes = ChosenFor(paths);
  EXPECT_EQ(routes.sites, (std::vector<std::uint32_t>{0, 0, 0, 0, 1, 1, 1, 1}));
  EXPECT_TRUE(routes.site_shares.empty());
  const CostModel model(paths, routes);
  EXPECT_EQ(model.Best(64 * kMiB), Algorithm::kHierarchical);
  const double once = 64.0 * kMiB / 12.5e6;  // of the buffer, by the uplink
  EXPECT_NEAR(model.Seconds(Algorithm::kHierarchical, 64 * kMiB), once, 0.1 * once);
  EXPECT_NEAR(model.Seconds(Algorithm::kDirect, 64 * kMiB), 4 * once, 0.2 * once);
}

TEST(RouteSites, AreTheNamedOnesWhereTheirHostsShareAnUplink) {
  PathMatrix paths = Hosts(4, 1);
  for (std::uint32_t peer = 0; peer < 4; ++peer) {
    paths.set_site(peer, peer / 2);
    paths.set_site_uplink(peer, 5e6);
  }
  EXPECT_EQ(ChosenFor(paths).sites, (std::vector<std::uint32_t>{0, 0, 1, 1}));
}

TEST(RouteSites, AreThoseThatAreNearWhereNobodyNamedSitesAndThatIsFaster) {
  PathMatrix paths = Hosts(3, 1);  // one far from two, with 8 Mbit/s to each of them
  ForEachPath(3, [&](std::uint32_t from, std::uint32_t to) {
    const bool near = from > 0 && to > 0;
    paths.set_delay(from, to, near ? 1e-4 : 0.02);
    paths.set_rate(from, to, near ? 1e9 : 1e6);
  });
  EXPECT_EQ(ChosenFor(paths).sites, (std::vector<std::uint32_t>{0, 1, 1}));
}

TEST(RouteSites, ASlowOneOwnsLess) {
  PathMatrix paths = Hosts(4, 2);
  for (const std::uint32_t peer : {2U, 3U}) paths.set_uplink(peer, 6.25e6);
  const Routes routes = ChosenFor(paths);
  ASSERT_EQ(routes.site_shares.size(), 4u);
  EXPECT_EQ(std::accumulate(routes.site_shares.begin(), routes.site_shares.end(), 0u), kWholeShare);
  EXPECT_LT(routes.site_shares[1], routes.site_shares[0] / 4);
  EXPECT_LE(*std::max_element(routes.site_shares.begin(), routes.site_shares.end()), SiteShareMax(4));
  Routes equal = routes;
  equal.site_shares.clear();
  EXPECT_LT(CostModel(paths, routes).Seconds(Algorithm::kHierarchical, 64 * kMiB),
            0.8 * CostModel(paths, equal).Seconds(Algorithm::kHierarchical, 64 * kMiB));
}

}  // namespace
}  // namespace ringway
