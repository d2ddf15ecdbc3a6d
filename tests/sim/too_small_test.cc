// Worlds below their minimum, and ranks that had submitted different numbers of operations when they got there.
#include "tests/sim/scenario.h"

namespace ringway::sim {
namespace {

// Calls UpdateView on each of them until it succeeds there, as the error's text says.
bool UpdateUntilDone(Cluster& cluster, const Nodes& nodes) {
  const auto newest = [&](std::uint32_t node) { return OpName{ChannelId(0), cluster.NextSequence(node, 0) - 1}; };
  return cluster.RunUntil([&] {
    bool done = true;
    for (const std::uint32_t node : nodes) {
      const auto found = cluster.OutcomesOf(node).find(newest(node));
      if (found == cluster.OutcomesOf(node).end()) {
        done = false;  // it runs
      } else if (found->second.code != Code::kOk) {
        done = false;
        cluster.Submit(node, kUpdate);
      }
    }
    return done;
  });
}

// Returns how the operation ended.
Code OutcomeOf(Cluster& cluster, std::uint32_t node, const OpName& name) {
  const auto found = cluster.OutcomesOf(node).find(name);
  return found == cluster.OutcomesOf(node).end() ? Code::kOk : found->second.code;
}

void ExpectInStep(Cluster& cluster, const Nodes& nodes) {
  for (const std::uint32_t node : nodes) {
    for (const std::uint32_t channel : {0u, 1u, 2u}) {
      EXPECT_EQ(cluster.NextSequence(node, channel), cluster.NextSequence(nodes[0], channel))
          << node << ", " << channel;
    }
  }
}

TEST(TooSmall, RanksThatSubmittedDifferentNumbersMeetAgainAndLetANewcomerIn) {
  auto cluster = Formed(3, {.min_world = 3});
  for (int i = 0; i < 5; ++i) cluster->Submit(0, SumF32(kLarge));
  for (int i = 0; i < 3; ++i) cluster->Submit(0, SumF32(kSmall), 1);
  for (int i = 0; i < 2; ++i) cluster->Submit(1, SumF32(kLarge));
  cluster->Kill(2);
  ASSERT_TRUE(Finish(*cluster, {0, 1}));
  EXPECT_EQ(cluster->OutcomesOf(0).size(), 8u);
  for (const std::uint32_t node : {0u, 1u}) {
    for (const auto& [name, outcome] : cluster->OutcomesOf(node)) EXPECT_EQ(outcome.code, Code::kWorldTooSmall);
  }
  cluster->Submit(1, SumF32(kLarge));
  EXPECT_EQ(OutcomeOf(*cluster, 1, {ChannelId(0), 3}), Code::kWorldTooSmall) << "at once: it had failed for the other";
  cluster->AddNode(1);
  ASSERT_TRUE(cluster->RunUntil([&] { return cluster->PendingText(3).find("links stand") != std::string::npos; }));
  cluster->RunEvents(500);  // the members hear of its view
  ASSERT_TRUE(UpdateUntilDone(*cluster, {0, 1})) << cluster->Describe(0) << "; " << cluster->Describe(1);
  ASSERT_TRUE(cluster->RunUntil([&] { return cluster->Joined(3); })) << cluster->Describe(3);
  ExpectInStep(*cluster, {0, 1, 3});
  for (const std::uint32_t channel : {0u, 1u}) SubmitAll(*cluster, {0, 1, 3}, SumF32(kSmall), channel);
  ASSERT_TRUE(Finish(*cluster, {0, 1, 3})) << cluster->Describe(1);
  CheckAgreement(*cluster, {0, 1, 3});
  EXPECT_EQ(cluster->OutcomesOf(1).rbegin()->second.code, Code::kOk);
  EXPECT_EQ(cluster->OutcomesOf(1).rbegin()->second.contributors.size(), 3u);
}

// Nobody goes: the world is too small from its beginning.
TEST(TooSmall, OneRanksOperationFailsAnothersUpdateViewOfTheSameNumber) {
  auto cluster = Formed(2, {.min_world = 3});
  cluster->Submit(1, kUpdate);
  cluster->RunEvents(100);
  EXPECT_FALSE(cluster->AllDone({1}));
  cluster->Submit(0, SumF32(kLarge));
  ASSERT_TRUE(Finish(*cluster, {0, 1})) << cluster->Describe(1);
  CheckAgreement(*cluster, {0, 1});
  for (const std::uint32_t node : {0u, 1u}) {
    EXPECT_EQ(cluster->OutcomesOf(node).begin()->second.code, Code::kWorldTooSmall);
  }
  SubmitAll(*cluster, {0, 1}, kUpdate);
  ASSERT_TRUE(Finish(*cluster, {0, 1}));
  EXPECT_EQ(cluster->OutcomesOf(1).rbegin()->second.code, Code::kOk);
}

// At every point of the recovery a rank dies to which the verdict may already have been reported.
TEST(TooSmall, RankThatGotTheVerdictDiesAtAnyPointAndTheOthersStillAgree) {
  for (std::uint64_t point = 0; point <= 300; point += 2 * kSweep) {
    SCOPED_TRACE("killed after event " + std::to_string(point));
    auto cluster = Formed(4, {.min_world = 4});
    for (std::uint32_t node = 0; node < 3; ++node) {
      for (std::uint32_t i = 0; i < 2 + 3 * node; ++i) cluster->Submit(node, SumF32(kLarge), i % 2);
    }
    cluster->Kill(3);
    cluster->RunEvents(point);
    cluster->Kill(2);
    ASSERT_TRUE(Finish(*cluster, {0, 1}));
    ASSERT_TRUE(UpdateUntilDone(*cluster, {0, 1})) << cluster->Describe(0) << "; " << cluster->Describe(1);
    CheckAgreement(*cluster, {0, 1});
    ExpectInStep(*cluster, {0, 1});
    ASSERT_FALSE(testing::Test::HasFailure());
  }
}

TEST(TooSmall, OperationsWaitForAMasterThatIsAwayAndThenFail) {
  auto cluster = Formed(3, {.min_world = 3});
  cluster->Kill(2);
  cluster->KillMaster();
  for (int i = 0; i < 3; ++i) cluster->Submit(0, SumF32(kSmall));
  cluster->Submit(1, SumF32(kSmall));
  cluster->RunEvents(2000);
  EXPECT_FALSE(cluster->AllDone({0, 1}));
  cluster->StartMaster();
  ASSERT_TRUE(Finish(*cluster, {0, 1}));
  CheckAgreement(*cluster, {0, 1});
  EXPECT_EQ(cluster->OutcomesOf(0).rbegin()->second.code, Code::kWorldTooSmall);
}

}  // namespace
}  // namespace ringway::sim
