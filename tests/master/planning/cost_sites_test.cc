// Prices where hosts of one site share its way out.
#include <gtest/gtest.h>

#include "master/planning/cost_model.h"
#include "master/planning/ring_order.h"
#include "tests/master/planning/path_worlds.h"

namespace ringway {
namespace {

constexpr double kLan = 1.25e9;
constexpr double kWan = 12.5e6;

// `sites` of `hosts` each, one after the other.
PathMatrix Datacenters(std::uint32_t sites, std::uint32_t hosts) {
  PathMatrix paths(sites * hosts);
  for (std::uint32_t peer = 0; peer < paths.size(); ++peer) paths.set_site(peer, peer / hosts);
  ForEachPath(paths.size(), [&](std::uint32_t from, std::uint32_t to) {
    paths.set_delay(from, to, paths.crosses(from, to) ? 0.05 : 0.0001);
    paths.set_rate(from, to, paths.crosses(from, to) ? kWan : kLan);
  });
  return paths;
}

CostModel ModelWithRing(const PathMatrix& paths) { return {paths, {.ring = FindRing(paths).order}}; }

double Mega(const CostModel& model, Algorithm algorithm) { return model.Seconds(algorithm, 256 * kMiB); }

TEST(CostSites, AnUnmeasuredWayOutOfASiteIsTakenForTheBestPathThatLeavesIt) {
  PathMatrix paths = Datacenters(2, 2);
  paths.set_rate(1, 2, 3 * kWan);
  const PathMatrix filled = WithAssumptions(paths);
  EXPECT_EQ(filled.site_uplink(0), 3 * kWan);
  EXPECT_EQ(filled.site_uplink(1), 3 * kWan);
  EXPECT_EQ(filled.site_uplink(2), kWan);
  paths.set_site_uplink(0, 5 * kWan);
  EXPECT_EQ(WithAssumptions(paths).site_uplink(0), 5 * kWan) << "what is known stays";
}

TEST(CostSites, AMeasuredUplinkIsTheWayOutOfALoneHostsSiteOnly) {
  PathMatrix paths = Datacenters(2, 2);
  paths.set_site(3, 2);
  for (std::size_t peer = 0; peer < paths.size(); ++peer) paths.set_uplink(peer, 3 * kWan);
  const PathMatrix filled = WithAssumptions(paths);
  EXPECT_EQ(filled.site_uplink(0), kWan) << "two hosts may share it";
  EXPECT_EQ(filled.site_uplink(3), 3 * kWan);
}

TEST(CostSites, HierarchicalIsChosenWhereSitesShareTheirWayOut) {
  const CostModel model = ModelWithRing(Datacenters(2, 4));
  EXPECT_EQ(model.Best(64 * kMiB), Algorithm::kHierarchical);
  EXPECT_EQ(model.Best(1024 * kMiB), Algorithm::kHierarchical);
  // A site's uplink carries the whole buffer once, with direct once for each host, with the ring 2(K-1)/K times.
  const double once = 256.0 * kMiB / kWan;
  EXPECT_NEAR(Mega(model, Algorithm::kHierarchical), once, 0.05 * once);
  EXPECT_NEAR(Mega(model, Algorithm::kDirect), 4 * once, 0.2 * once);
  EXPECT_NEAR(Mega(model, Algorithm::kRing), 1.75 * once, 0.1 * once);
}

TEST(CostSites, AMeasuredWideWayOutIsUsedByAllHostsAtOnce) {
  PathMatrix paths = Datacenters(2, 4);
  for (std::size_t peer = 0; peer < paths.size(); ++peer) paths.set_site_uplink(peer, 100 * kWan);
  const CostModel model = ModelWithRing(paths);
  const double share = 256.0 * kMiB / 4 / kWan;
  EXPECT_NEAR(Mega(model, Algorithm::kHierarchical), share, 0.1 * share);
  EXPECT_NEAR(Mega(model, Algorithm::kDirect), share, 0.1 * share);
}

TEST(CostSites, WithoutSitesOrWithOneHostInEachHierarchicalIsDirect) {
  PathMatrix one_site = Datacenters(2, 3);
  for (std::size_t peer = 0; peer < one_site.size(); ++peer) one_site.set_site(peer, 7);
  for (const PathMatrix& paths : {one_site, Datacenters(5, 1)}) {
    const CostModel model = ModelWithRing(paths);
    for (const std::uint64_t bytes : {kMiB / 1024, kMiB, 64 * kMiB}) {
      const double direct = model.Seconds(Algorithm::kDirect, bytes);
      EXPECT_NEAR(model.Seconds(Algorithm::kHierarchical, bytes), direct, 0.1 * direct);
    }
  }
}

TEST(CostSites, PartnersAcrossSitesShareTheWayOutInHalvingAndDoubling) {
  const PathMatrix paths = Datacenters(2, 4);
  PathMatrix wide = paths;
  for (std::size_t peer = 0; peer < wide.size(); ++peer) wide.set_site_uplink(peer, 100 * kWan);
  // All eight exchange half of the buffer across the WAN, twice: four share a way out.
  EXPECT_NEAR(
      Mega(ModelWithRing(paths), Algorithm::kHalvingDoubling) / Mega(ModelWithRing(wide), Algorithm::kHalvingDoubling),
      4, 0.2);
}

}  // namespace
}  // namespace ringway
