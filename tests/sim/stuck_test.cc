// Operations that nothing gets on with: what has a cause is waited for.
#include "tests/sim/scenario.h"

namespace ringway::sim {
namespace {

constexpr Duration kLong = std::chrono::minutes(10);

std::uint64_t Stuck(Cluster& cluster, const Nodes& nodes) {
  std::uint64_t stuck = 0;
  for (const std::uint32_t node : nodes) stuck += cluster.StatusOf(node).ops_stuck;
  return stuck;
}

bool Passes(Cluster& cluster, Duration time) {
  const TimePoint end = cluster.now() + time;
  return cluster.RunUntil([&] { return cluster.now() >= end; }, 2 * time);
}

TEST(Stuck, ATrainerThatSubmitsLateIsWaitedFor) {
  for (const std::uint64_t count : {kSmall, kLarge}) {
    auto cluster = Formed(3, {});
    SubmitAll(*cluster, {0, 1}, SumF32(count));
    ASSERT_TRUE(Passes(*cluster, kLong)) << cluster->failure();
    SubmitAll(*cluster, {2}, SumF32(count));
    ASSERT_TRUE(Finish(*cluster, {0, 1, 2}));
    EXPECT_EQ(cluster->OutcomesOf(0).begin()->second.retries, 0U);
  }
}

TEST(Stuck, AnUpdateViewThatNotAllHaveSubmittedIsWaitedFor) {
  auto cluster = Formed(3, {});
  SubmitAll(*cluster, {0, 1}, kUpdate);
  SubmitAll(*cluster, {2}, SumF32(kLarge), 1);
  ASSERT_TRUE(Passes(*cluster, kLong)) << cluster->failure();
  EXPECT_EQ(Stuck(*cluster, {0, 1, 2}), 0U);
}

TEST(Stuck, ATrainerThatCopiesItsInputSlowlyIsWaitedFor) {
  // Each piece takes longer than the watchdog's patience.
  auto cluster = Formed(3, {.staged_one_of = 1, .stuck_after = Duration(2000)});
  SubmitAll(*cluster, {0, 1, 2}, SumF32(kLarge));
  ASSERT_TRUE(Finish(*cluster, {0, 1, 2})) << cluster->failure();
  EXPECT_EQ(cluster->OutcomesOf(0).begin()->second.retries, 0U);
}

TEST(Stuck, AMasterThatIsAwayInARecoveryIsWaitedFor) {
  auto cluster = Formed(3, {});
  SubmitAll(*cluster, {0, 1, 2}, SumF32(kLarge));
  cluster->KillMaster();
  cluster->Kill(2);
  ASSERT_TRUE(Passes(*cluster, kLong)) << cluster->failure();
  cluster->StartMaster();
  ASSERT_TRUE(Finish(*cluster, {0, 1}));
  EXPECT_EQ(Stuck(*cluster, {0, 1}), 0U);
}

}  // namespace
}  // namespace ringway::sim
