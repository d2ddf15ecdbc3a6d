// A state that travels before its newcomer is admitted, while givers, the newcomer or the master die.
#include "tests/sim/state_scenarios.h"

namespace ringway::sim {
namespace {

TEST(StateBeforeAdmission, NewcomerStaysOutUntilItHasTheStateAndIsAdmittedThen) {
  EXPECT_TRUE(StaysOutWhileItTakes());
  EXPECT_TRUE(IsAdmittedOnceItHasTheState());
}

TEST(StateBeforeAdmission, GroupThatFormsIsNotHeldAndMembersHearOfWhoTakes) {
  EXPECT_TRUE(FormsWhereAllWouldTake());
  EXPECT_TRUE(AllMembersHearOfIt());
}

// The newcomer loses the piece that this giver was sending, the group a member; the others go on, and admit it.
TEST(StateBeforeAdmission, GiverThatDiesAtAnyPointCostsItsPieceAlone) {
  for (std::uint64_t point = 0; point < 400; point += 40 * kSweep) {
    StateWorld world;
    Cluster& cluster = *world.cluster;
    world.Give();
    SubmitAll(cluster, Range(3), SumF32(kLarge));
    cluster.RunEvents(point);
    cluster.Kill(1);
    const Nodes survivors = Without(Range(3), 1);
    ASSERT_TRUE(Finish(cluster, survivors)) << point << ": " << cluster.failure();
    ASSERT_TRUE(FinishMessages(cluster, world.takers)) << point << ": " << cluster.failure();
    EXPECT_TRUE(cluster.TakesState(world.newcomer));
    EXPECT_FALSE(cluster.Joined(world.newcomer));
    cluster.FinishState(world.newcomer);
    ASSERT_TRUE(world.IsAdmitted(survivors)) << point << ": " << cluster.PendingText(world.newcomer);
    CheckAgreement(cluster, survivors);
  }
}

TEST(StateBeforeAdmission, NewcomerThatDiesAtAnyPointCostsTheMembersNothing) {
  for (std::uint64_t point = 0; point < 400; point += 40 * kSweep) {
    StateWorld world;
    Cluster& cluster = *world.cluster;
    world.Give();
    const Epoch before = cluster.StatusOf(0).epoch;
    SubmitAll(cluster, Range(3), SumF32(kLarge));
    cluster.RunEvents(point);
    cluster.Kill(world.newcomer);
    ASSERT_TRUE(Finish(cluster, Range(3))) << point << ": " << cluster.failure();
    ASSERT_TRUE(FinishMessages(cluster, world.givers)) << point << ": " << cluster.failure();
    EXPECT_EQ(cluster.StatusOf(0).epoch, before) << point;
    EXPECT_FALSE(cluster.HadALossInAView("g")) << point;
    CheckAgreement(cluster, Range(3));
  }
}

// The master has forgotten the newcomer, which is another one then and compares what it has.
TEST(StateBeforeAdmission, StateTravelsWithoutTheMasterWhichAdmitsWhenItIsBack) {
  StateWorld world;
  Cluster& cluster = *world.cluster;
  world.Give();
  cluster.KillMaster();
  ASSERT_TRUE(FinishMessages(cluster, world.takers));
  cluster.FinishState(world.newcomer);
  EXPECT_FALSE(world.IsAdmitted(Range(3)));
  cluster.StartMaster();
  ASSERT_TRUE(cluster.RunUntil([&] { return cluster.TakesState(world.newcomer); }));
  cluster.FinishState(world.newcomer);
  EXPECT_TRUE(world.IsAdmitted(Range(3))) << cluster.PendingText(world.newcomer);
  CheckAgreement(cluster, Range(3));
}

}  // namespace
}  // namespace ringway::sim
