// Random worlds in shards, so that several run at once. A seed that fails replays with: sim_run --first SEED --trace
#include "tests/sim/world.h"

#include <gtest/gtest.h>

#include "tests/sanitized.h"

namespace ringway::sim {
namespace {

constexpr std::uint64_t kSeeds = kSanitized ? 48 : RINGWAY_SIM_SEEDS;
constexpr std::uint64_t kShards = 8;
constexpr std::size_t kTraceLines = 80;

void ExpectKept(std::uint64_t seed) {
  const WorldReport report = RunWorld(seed, false);
  if (report.failure.empty()) return;
  const WorldReport traced = RunWorld(seed, true);
  std::string text;
  for (std::size_t i = traced.trace.size() - std::min(traced.trace.size(), kTraceLines); i < traced.trace.size(); ++i) {
    text += traced.trace[i] + "\n";
  }
  FAIL() << "seed " << seed << ": " << report.failure << "\nthe end of it:\n" << text;
}

class WorldTest : public testing::TestWithParam<std::uint64_t> {};

TEST_P(WorldTest, KeepsThePromise) {
  const std::uint64_t each = AtEffort(kSeeds) / kShards;
  for (std::uint64_t seed = GetParam() * each + 1; seed <= (GetParam() + 1) * each; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));  // of a broken invariant too, which ends the process
    ExpectKept(seed);
    if (HasFatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, WorldTest, testing::Range(std::uint64_t{0}, kShards));

TEST(World, ReplaysExactly) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    const WorldReport one = RunWorld(seed, true);
    const WorldReport other = RunWorld(seed, true);
    EXPECT_EQ(one.trace, other.trace);
    EXPECT_EQ(one.events, RunWorld(seed, false).events);
  }
}

TEST(World, MeetsEveryFaultAndOutcome) {
  if (kSanitized) GTEST_SKIP() << "the release build counts them";
  std::map<std::string, std::uint64_t> counts;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    for (const auto& [what, count] : RunWorld(seed, false).counts) counts[what] += count;
  }
  for (const std::string& fault : FaultKinds()) EXPECT_GT(counts["fault: " + fault], 0U) << fault;
  for (const char* outcome :
       {"ok", "cancelled", "mismatch", "evicted", "left", "buffer_modified", "peer_lost", "world_too_small"}) {
    EXPECT_GT(counts[std::string("reported ") + outcome], 0U) << outcome;
  }
  EXPECT_GT(counts["reported after a retry"], 0U);
  EXPECT_GT(counts["ended with unequal shares"], 10U);
}

}  // namespace
}  // namespace ringway::sim
