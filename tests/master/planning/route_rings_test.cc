#include "master/planning/route_rings.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "master/planning/cost_model.h"
#include "master/planning/ring_order.h"
#include "proto/collective/shares.h"
#include "tests/master/planning/path_worlds.h"

namespace ringway {
namespace {

// Ends of `end`, paths of `path` bytes per second.
PathMatrix PathLimited(std::size_t peers, double end, double path) {
  PathMatrix paths = UniformWorld(peers, 0.050, end);
  ForEachPath(peers, [&](std::uint32_t from, std::uint32_t to) { paths.set_rate(from, to, path); });
  return paths;
}

// Six peers of which the pairs 0-1, 2-3 and 4-5 hardly reach each other.
PathMatrix ThreeBadPairs() {
  PathMatrix paths = PathLimited(6, 50e6, 8e6);
  for (const std::uint32_t peer : {0U, 2U, 4U}) {
    paths.set_rate(peer, peer + 1, 1e6);
    paths.set_rate(peer + 1, peer, 1e6);
  }
  return paths;
}

void ExpectDisjointAndWhole(const std::vector<WeightedRing>& rings, std::size_t peers) {
  std::set<std::pair<std::uint32_t, std::uint32_t>> used;
  std::uint64_t whole = 0;
  EXPECT_LE(rings.size(), kRingsMax);
  for (const WeightedRing& ring : rings) {
    whole += ring.share;
    std::vector<std::uint32_t> sorted = ring.order;
    std::sort(sorted.begin(), sorted.end());
    EXPECT_EQ(sorted, Identity(peers));
    for (std::size_t i = 0; i < peers; ++i) {
      const bool is_new = used.emplace(ring.order[i], ring.order[(i + 1) % peers]).second;
      EXPECT_TRUE(is_new) << ring.order[i] << " sends to " << ring.order[(i + 1) % peers] << " in two rings";
    }
  }
  EXPECT_EQ(whole, rings.empty() ? 0 : kWholeShare);
}

TEST(DisjointRings, OfAPrimeTakeEveryPath) {
  for (const std::size_t peers : {3U, 5U, 7U}) {
    const auto rings = FindRings(PathLimited(peers, 1e9, 5e6), Identity(peers), RingSearch::kStrides);
    EXPECT_EQ(rings.size(), peers - 1);
    ExpectDisjointAndWhole(rings, peers);
  }
}

TEST(DisjointRings, AreNoMoreThanTheEndsCanUse) {
  EXPECT_EQ(FindRings(PathLimited(7, 14e6, 5e6), Identity(7), RingSearch::kGreedy).size(), 3u);
  EXPECT_TRUE(FindRings(PathLimited(7, 5e6, 5e6), Identity(7), RingSearch::kGreedy).empty());
}

TEST(DisjointRings, AreNoneWhereNothingIsKnownOrThereIsNoSecond) {
  EXPECT_TRUE(FindRings(PathMatrix(5), Identity(5), RingSearch::kGreedy).empty());
  EXPECT_TRUE(FindRings(PathLimited(2, 1e9, 5e6), Identity(2), RingSearch::kGreedy).empty());
  EXPECT_TRUE(FindRings(PathMatrix(1), Identity(1), RingSearch::kGreedy).empty());
}

TEST(DisjointRings, AvoidSlowPathsWhereStridesCannot) {
  const PathMatrix paths = ThreeBadPairs();
  const std::vector<std::uint32_t> best = FindRing(paths).order;
  const auto rings = FindRings(paths, best, RingSearch::kGreedy);
  ExpectDisjointAndWhole(rings, 6);
  ASSERT_GE(rings.size(), 3u);
  for (const WeightedRing& ring : rings) EXPECT_GT(MeasureRing(paths, ring.order).rate, 7e6);
}

TEST(DisjointRings, ShareTheBufferAsTheirSlowestPathsAreFast) {
  PathMatrix paths = PathLimited(3, 1e9, 30e6);
  paths.set_rate(0, 1, 10e6);  // of the ring 0 1 2, not of 0 2 1
  const auto rings = FindRings(paths, {0, 1, 2}, RingSearch::kStrides);
  ASSERT_EQ(rings.size(), 2u);
  EXPECT_EQ(rings[0].order, (std::vector<std::uint32_t>{0, 2, 1}));
  EXPECT_NEAR(rings[0].share, 0.75 * kWholeShare, 2);
}

TEST(DisjointRings, OfAnyWorldShareNoPathAndGain) {
  for (const std::size_t peers : {3U, 4U, 6U, 8U, 17U, 64U}) {
    for (std::uint64_t seed = 1; seed <= (peers > 16 ? 2 : 10); ++seed) {
      SCOPED_TRACE(std::to_string(peers) + " peers, seed " + std::to_string(seed));
      const PathMatrix paths = RandomWorld(peers, seed);
      const std::vector<std::uint32_t> ring = FindRing(paths).order;
      for (const RingSearch search : {RingSearch::kStrides, RingSearch::kGreedy}) {
        ExpectDisjointAndWhole(FindRings(paths, ring, search), peers);
      }
    }
  }
}

TEST(DisjointRings, AreThePlansChoiceWhereDirectWouldNeedTheSlowPaths) {
  const PathMatrix paths = ThreeBadPairs();
  const std::vector<std::uint32_t> ring = FindRing(paths).order;
  const CostModel one(paths, {.ring = ring});
  const CostModel model(paths, {.ring = ring, .rings = FindRings(paths, ring, RingSearch::kGreedy)});
  EXPECT_EQ(model.Best(256 * kMiB), Algorithm::kRings);
  EXPECT_LT(model.Seconds(Algorithm::kRings, 256 * kMiB), 0.6 * one.Seconds(Algorithm::kTwoRings, 256 * kMiB));
  EXPECT_EQ(one.Seconds(Algorithm::kRings, 256 * kMiB), one.Seconds(Algorithm::kRing, 256 * kMiB));
  EXPECT_NE(model.Best(64 * kKiB), Algorithm::kRings) << "delays weigh more";
}

}  // namespace
}  // namespace ringway
