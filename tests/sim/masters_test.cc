// Several masters and one store: whatever comes late, is lost, stops or dies, one leads, and what it announced stays.
#include <gtest/gtest.h>

#include "tests/sim/masters_scenarios.h"
#include "tests/sim/store_scenarios.h"

namespace ringway::sim {
namespace {

constexpr std::uint64_t kMastersSeeds = RINGWAY_SIM_SEEDS / 10;

TEST(Masters, NothingThatWasAnnouncedIsLostOrContradicted) { EXPECT_EQ(RunMasters(1, kMastersSeeds), ""); }

TEST(Masters, OneLeadsAndDecides) {
  Masters masters({.faults = false});
  masters.Run(std::chrono::seconds(10));
  EXPECT_EQ(masters.failure(), "");
  EXPECT_EQ(masters.tenures(), 1U);
  EXPECT_GT(masters.announced(), 50U);
}

TEST(Masters, AnotherTakesOverInThreeSecondsWhenTheLeaderIsKilled) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Masters masters({.seed = seed, .faults = false});
    masters.Run(std::chrono::seconds(3));
    const std::optional<std::uint32_t> leader = masters.Leader();
    ASSERT_TRUE(leader);
    masters.Kill(*leader);
    masters.Run(std::chrono::seconds(3));
    ASSERT_TRUE(masters.Leader());
    EXPECT_NE(*masters.Leader(), *leader);
    EXPECT_EQ(masters.failure(), "");
  }
}

TEST(Masters, LeaderThatWakesUpAfterItsTimeDecidesNothing) {
  Masters masters({.faults = false});
  masters.Run(std::chrono::seconds(3));
  const std::uint32_t leader = *masters.Leader();
  masters.Stop(leader);
  masters.Run(std::chrono::seconds(5));
  ASSERT_NE(*masters.Leader(), leader);
  masters.Continue(leader);
  masters.Run(std::chrono::seconds(5));
  EXPECT_EQ(masters.failure(), "");
  EXPECT_EQ(masters.tenures(), 2U) << "it stands by";
}

TEST(Masters, WithoutTheStoreNobodyDecidesAndWithItOneDoes) {
  Masters masters({.faults = false});
  masters.Run(std::chrono::seconds(3));
  masters.LoseStore(true);
  masters.Run(std::chrono::seconds(1));
  const std::uint64_t before = masters.announced();
  masters.Run(std::chrono::seconds(20));
  EXPECT_EQ(masters.announced(), before);
  EXPECT_FALSE(masters.Leader()) << "its daemons look for another";
  masters.LoseStore(false);
  masters.Run(std::chrono::seconds(5));
  EXPECT_TRUE(masters.Leader());
  EXPECT_GT(masters.announced(), before);
  EXPECT_EQ(masters.failure(), "");
}

TEST(Masters, MemberThatDiesAndMasterThatDiesWhileItWritesThatLeaveNobodyInDoubt) {
  EXPECT_EQ(DisagreementsWhenTheMasterDiesWhileItWrites(), 0);
}

// No master can undo it; but none goes on as if nothing had been.
TEST(Masters, StoreThatForgetsWhatItAcknowledgedIsNoticedByTheNextWrite) {
  Masters masters({.faults = true, .lies = true});
  for (int second = 0; second < 300 && masters.store_failures() == 0 && masters.failure().empty(); ++second) {
    masters.Run(std::chrono::seconds(1));
  }
  EXPECT_TRUE(masters.store_failures() > 0 || !masters.failure().empty());
}

}  // namespace
}  // namespace ringway::sim
