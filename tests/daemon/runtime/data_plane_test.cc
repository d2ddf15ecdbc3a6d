#include "daemon/runtime/data_plane.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "tests/daemon/runtime/planes.h"
#include "tests/daemon/runtime/scenarios.h"

namespace ringway::daemon {
namespace {

constexpr std::uint64_t kSeeds = 3;

class DataPlaneTest : public testing::TestWithParam<Scenario> {};

TEST_P(DataPlaneTest, NothingIsWrong) {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) ASSERT_EQ(GetParam().why_wrong(seed), "") << "seed " << seed;
}

INSTANTIATE_TEST_SUITE_P(All, DataPlaneTest, testing::ValuesIn(Scenarios()),
                         [](const auto& tested) { return tested.param.name; });

// Returns the history of a world of this seed.
std::string HistoryOf(std::uint64_t seed) {
  Planes planes({.daemons = 3, .seed = seed});
  EXPECT_EQ(planes.Join(), "");
  EXPECT_EQ(planes.AllReduce(1), "");
  World& world = planes.world();
  return std::to_string(world.now().time_since_epoch().count()) + " us, " + std::to_string(world.events()) +
         " events, " + std::to_string(world.links().size()) + " links";
}

TEST(PlanesTest, SeedTellsHowAWorldGoes) {
  EXPECT_EQ(HistoryOf(7), HistoryOf(7));
  EXPECT_NE(HistoryOf(7), HistoryOf(8));
}

}  // namespace
}  // namespace ringway::daemon
