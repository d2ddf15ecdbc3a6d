#include "master/planning/route_shares.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "master/planning/cost_model.h"
#include "proto/collective/shares.h"
#include "tests/master/planning/path_worlds.h"

namespace ringway {
namespace {

std::vector<std::uint32_t> EqualShares(std::size_t peers) {
  return std::vector<std::uint32_t>(peers, kWholeShare / static_cast<std::uint32_t>(peers));
}

// Paths without limits.
PathMatrix WithUplinks(const std::vector<double>& uplinks) {
  PathMatrix paths = UniformWorld(uplinks.size(), 0.050, 1e12);
  for (std::size_t peer = 0; peer < uplinks.size(); ++peer) paths.set_uplink(peer, uplinks[peer]);
  return paths;
}

TEST(DirectShares, AreEqualWhereAllIsAlikeOrNothingIsKnown) {
  for (const std::size_t peers : {1U, 2U, 3U, 4U, 7U, 64U}) {
    EXPECT_TRUE(DirectShares(UniformWorld(peers, 0.050, 50e6)).empty()) << peers;
    EXPECT_TRUE(DirectShares(PathMatrix(peers)).empty()) << peers;
  }
}

TEST(DirectShares, NoiseOfUplinksDoesNotDecide) {
  EXPECT_TRUE(DirectShares(WithUplinks({50e6, 48e6, 52e6, 49e6})).empty());
}

TEST(DirectShares, TakeFromASlowUplinkWhatItWouldSendTwice) {
  const PathMatrix paths = WithUplinks({100e6, 100e6, 50e6, 100e6});
  const std::vector<std::uint32_t> shares = DirectShares(paths);
  ASSERT_EQ(shares.size(), 4u);
  EXPECT_EQ(std::accumulate(shares.begin(), shares.end(), 0u), kWholeShare);
  EXPECT_LT(shares[2], kWholeShare / 50) << "it sends its buffer once anyway";
  // 2(K-1) buffers over all uplinks together; 1.5 buffers on the slow one with equal shares.
  EXPECT_NEAR(BusiestSecondsPerByte(paths, shares) * 50e6, 1, 0.02);
  EXPECT_NEAR(BusiestSecondsPerByte(paths, EqualShares(4)) * 50e6, 1.5, 1e-9);
}

// The header has the bound that no shares can beat where only the ends limit.
TEST(DirectShares, ReachTheLeastThatEndsAllow) {
  for (const std::size_t peers : {3U, 4U, 5U}) {
    for (std::uint64_t seed = 1; seed <= 100; ++seed) {
      std::mt19937_64 random(seed);
      std::vector<double> uplinks;
      for (std::size_t peer = 0; peer < peers; ++peer)
        uplinks.push_back(40e6 + static_cast<double>(random() % 60) * 1e6);
      const PathMatrix paths = WithUplinks(uplinks);
      const std::vector<std::uint32_t> found = DirectShares(paths);
      const double busiest = BusiestSecondsPerByte(paths, found.empty() ? EqualShares(peers) : found);
      const double sum = std::accumulate(uplinks.begin(), uplinks.end(), 0.0);
      const double least =
          std::max(1 / *std::min_element(uplinks.begin(), uplinks.end()), 2 * static_cast<double>(peers - 1) / sum);
      EXPECT_GE(busiest, least * (1 - 1e-4)) << peers << " peers, seed " << seed;
      EXPECT_LE(busiest, least * (found.empty() ? 1.12 : 1.02)) << peers << " peers, seed " << seed;
    }
  }
}

TEST(DirectShares, ASlowPathIsSparedByItsTwoEnds) {
  PathMatrix paths = UniformWorld(4, 0.050, 50e6);
  paths.set_rate(0, 1, 5e6);
  const std::vector<std::uint32_t> shares = DirectShares(paths);
  ASSERT_EQ(shares.size(), 4u);
  EXPECT_LE(shares[0] + shares[1], kWholeShare / 4) << "two buffers' time on the other uplinks";
  EXPECT_LT(BusiestSecondsPerByte(paths, shares), 0.5 * BusiestSecondsPerByte(paths, EqualShares(4)));
}

TEST(DirectShares, OfPeersOfOneHostShareItsUplink) {
  PathMatrix paths = WithUplinks({100e6, 100e6, 100e6, 100e6});
  EXPECT_TRUE(DirectShares(paths).empty());
  for (const std::uint32_t peer : {0U, 1U}) paths.set_host(peer, 0);
  const std::vector<std::uint32_t> shares = DirectShares(paths);
  // The shared uplink carries 2 (1 - W) + 2 W, so two buffers whatever the two own; the others carry 1 + 2 w each.
  EXPECT_NEAR(BusiestSecondsPerByte(paths, EqualShares(4)) * 100e6, 2, 1e-3);
  for (const std::uint32_t peer : {2U, 3U}) paths.set_host(peer, 2), paths.set_uplink(peer, 50e6);
  EXPECT_NEAR(BusiestSecondsPerByte(paths, EqualShares(4)) * 50e6, 2, 1e-3);
  EXPECT_TRUE(shares.empty()) << "nothing to gain";
}

TEST(DirectShares, OfAnyWorldAreAllowedAndNeverSlowerThanEqualOnes) {
  for (const std::size_t peers : {3U, 4U, 7U, 8U, 16U, 33U, 64U}) {
    for (std::uint64_t seed = 1; seed <= (peers > 16 ? 2 : 20); ++seed) {
      SCOPED_TRACE(std::to_string(peers) + " peers, seed " + std::to_string(seed));
      const PathMatrix paths = RandomWorld(peers, seed);
      const std::vector<std::uint32_t> shares = DirectShares(paths);
      if (shares.empty()) continue;
      ASSERT_EQ(shares.size(), peers);
      EXPECT_EQ(std::accumulate(shares.begin(), shares.end(), std::uint64_t{0}), kWholeShare);
      EXPECT_LE(*std::max_element(shares.begin(), shares.end()), ShareMax(peers));
      const CostModel weighted(paths, {.ring = Identity(peers), .shares = shares});
      const CostModel equal(paths, {.ring = Identity(peers)});
      EXPECT_LT(weighted.Seconds(Algorithm::kDirect, 256 * kMiB), equal.Seconds(Algorithm::kDirect, 256 * kMiB));
    }
  }
}

// The model's line is what the shares were made for.
TEST(DirectShares, ArePricedByWhatTheBusiestCarries) {
  const PathMatrix paths = WithUplinks({100e6, 100e6, 50e6, 100e6});
  const std::vector<std::uint32_t> shares = DirectShares(paths);
  const CostModel model(paths, {.ring = Identity(4), .shares = shares}, {.retained_bytes_max = kMiB << 20});
  const double line = BusiestSecondsPerByte(paths, shares) * 256 * kMiB;
  // The slow one is done with its first half last, and then it takes another delay to come back.
  EXPECT_NEAR(model.Seconds(Algorithm::kDirect, 256 * kMiB), line + 2 * 0.050, 0.03 * line);
  EXPECT_EQ(model.Best(256 * kMiB), Algorithm::kDirect) << "a ring sends one and a half buffers on the slow uplink";
}

}  // namespace
}  // namespace ringway
