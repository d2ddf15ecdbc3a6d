#include "master/planning/slow_host.h"

#include <gtest/gtest.h>

#include "tests/master/planning/path_worlds.h"

namespace ringway {
namespace {

constexpr double kUplink = 100e6;

control::Plan PlanOfAView() {
  control::Plan plan;
  plan.set_segment_bytes_max(256 * 1024);
  plan.set_retained_bytes_max(64 * 1024);
  plan.set_small_bytes_max(64 * 1024);
  return plan;
}

// Four hosts have delays of 10 ms, and `peer` a line of so many bytes per second.
std::optional<SlowHost> Found(std::size_t peer, double rate, bool up, bool down) {
  PathMatrix paths = UniformWorld(4, 0.01, kUplink);
  if (up) paths.set_uplink(peer, rate);
  if (down) paths.set_downlink(peer, rate);
  return FindSlowHost(paths, PlanOfAView());
}

TEST(SlowHostTest, NobodyIsSlowWhereAllAreAlike) {
  EXPECT_FALSE(FindSlowHost(UniformWorld(4, 0.01, kUplink), PlanOfAView()));
  EXPECT_FALSE(FindSlowHost(PathMatrix(4), PlanOfAView())) << "nothing is known";
}

TEST(SlowHostTest, AHostIsSlowWhereItMakesStepsOverTwiceAsLong) {
  for (const std::size_t peer : {0U, 2U, 3U}) {
    for (const bool up : {false, true}) {
      const auto slow = Found(peer, kUplink / 20, up, !up);
      ASSERT_TRUE(slow) << peer << ' ' << up;
      EXPECT_EQ(slow->peer, peer);
      EXPECT_GT(slow->ratio, kSlowHostRatio);
    }
    EXPECT_FALSE(Found(peer, kUplink / 1.5, true, true)) << "the shares make up for that";
  }
}

TEST(SlowHostTest, PeersOfOneHostAreSlowTogether) {
  PathMatrix paths = UniformWorld(5, 0.01, kUplink);
  paths.set_host(4, paths.host(3));
  for (const std::size_t peer : {3U, 4U}) {
    paths.set_uplink(peer, kUplink / 20);
    paths.set_downlink(peer, kUplink / 20);
  }
  const auto slow = FindSlowHost(paths, PlanOfAView());
  ASSERT_TRUE(slow);
  EXPECT_EQ(paths.host(slow->peer), paths.host(3));
}

TEST(SlowHostTest, OfTwoHostsNoneIsSlow) {
  PathMatrix paths = UniformWorld(2, 0.01, kUplink);
  paths.set_uplink(1, kUplink / 100);
  EXPECT_FALSE(FindSlowHost(paths, PlanOfAView())) << "without it nothing is sent at all";
}

}  // namespace
}  // namespace ringway
