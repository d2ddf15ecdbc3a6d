#include "tests/sanitized.h"
#include "tests/sim/scenario.h"

namespace ringway::sim {
namespace {

// Each submits it as soon as what it waits for is done.
void GoOnWhenReported(Cluster& cluster, Nodes waiting, const Descriptor& descriptor) {
  EXPECT_TRUE(cluster.RunUntil([&] {
    std::erase_if(waiting, [&](std::uint32_t node) {
      const bool is_done = cluster.AllDone({node});
      if (is_done) cluster.Submit(node, descriptor);
      return is_done;
    });
    return waiting.empty();
  }));
}

TEST(Membership, PairThatHearsNothingLosesExactlyOneOfTheTwo) {
  auto cluster = Formed(4);
  cluster->CutPair(1, 2);
  SubmitAll(*cluster, Range(4), SumF32(kSmall));
  // One accuser each: the higher peer id goes.
  const std::uint32_t loser = cluster->IdOf(1) > cluster->IdOf(2) ? 1 : 2;
  const Nodes survivors = Without(Range(4), loser);
  ASSERT_TRUE(cluster->RunUntil([&] { return cluster->Ended(loser); })) << cluster->failure();
  EXPECT_EQ(cluster->EndedCode(loser), Code::kEvicted);
  ASSERT_TRUE(Finish(*cluster, survivors));
  CheckAgreement(*cluster, survivors);
}

TEST(Membership, StoppedDaemonIsEvictedByItsSilence) {
  auto cluster = Formed(3);
  cluster->Stop(1);
  SubmitAll(*cluster, {0, 2}, SumF32(kLarge));
  ASSERT_TRUE(Finish(*cluster, {0, 2}));
  CheckAgreement(*cluster, {0, 2});
  EXPECT_EQ(cluster->OutcomesOf(0).begin()->second.contributors.size(), 2u);
}

// While a recovery waits for the master, one that was lost long ago makes nobody else suspect.
TEST(Membership, APauseBelowTheDetectionTimeIsNoLossBesideAnOldOne) {
  auto cluster = Formed(3);
  cluster->KillMaster();
  cluster->KillDaemon(2, true);
  ASSERT_TRUE(cluster->RunUntil([&] { return cluster->StatusOf(0).frozen && cluster->StatusOf(1).frozen; }));
  const auto pass = [&](int ms) {
    const TimePoint end = cluster->now() + std::chrono::milliseconds(ms);
    return cluster->RunUntil([&] { return cluster->now() >= end; });
  };
  ASSERT_TRUE(pass(2000));
  cluster->CutPair(0, 1);
  ASSERT_TRUE(pass(2200));  // of 3000
  cluster->Unsilence(0, 1);
  cluster->StartMaster();
  ASSERT_TRUE(cluster->RunUntil([&] { return cluster->StatusOf(0).members.size() == 2; }));
  EXPECT_FALSE(cluster->Ended(1));
}

TEST(Membership, NewcomerIsAdmittedAtUpdateViewAtEveryPoint) {
  for (std::uint64_t seed = 1; seed <= 40; seed += kSweep) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    auto cluster = Formed(2, {.seed = seed});
    SubmitAll(*cluster, Range(2), SumF32(kSmall));
    cluster->AddNode(1);
    // Small operations go on until one of them says that a view waits.
    const auto waits = [&] { return cluster->OutcomesOf(0).rbegin()->second.update_waits; };
    int operations = 0;
    do {
      ASSERT_TRUE(Finish(*cluster, Range(2)));
      if (waits()) break;
      cluster->RunEvents(50);
      SubmitAll(*cluster, Range(2), SumF32(kSmall));
    } while (++operations < 2000);
    ASSERT_TRUE(waits());
    ASSERT_FALSE(cluster->Joined(2));
    SubmitAll(*cluster, Range(2), kUpdate);
    ASSERT_TRUE(cluster->RunUntil([&] { return cluster->Joined(2) && cluster->AllDone(Range(2)); }));
    EXPECT_EQ(cluster->WorldOf(0), 3u);
    SubmitAll(*cluster, Range(3), SumF32(kLarge));
    SubmitAll(*cluster, Range(3), SumF32(kSmall));
    ASSERT_TRUE(Finish(*cluster, Range(3)));
    CheckAgreement(*cluster, Range(3));
    EXPECT_EQ(cluster->OutcomesOf(2).size(), 2u);
    EXPECT_EQ(cluster->OutcomesOf(2).rbegin()->second.contributors.size(), 3u);
    ASSERT_FALSE(testing::Test::HasFailure());
  }
}

TEST(Membership, ReadyOfAMemberThatSwitchedFirstIsNotLost) {
  for (std::uint64_t seed = 1; seed <= 20; seed += kSweep) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    ClusterOptions options{.seed = seed};
    options.master.eager_bytes_max = 20'000;
    auto cluster = Formed(3, options);
    cluster->AddNode(1);
    ASSERT_TRUE(cluster->RunUntil([&] { return cluster->PendingText(3).find("UpdateView") != std::string::npos; }));
    cluster->RunEvents(100);
    SubmitAll(*cluster, Range(3), kUpdate);
    GoOnWhenReported(*cluster, Range(3), SumF32(kLarge));
    ASSERT_TRUE(cluster->RunUntil([&] { return cluster->Joined(3); }));
    cluster->Submit(3, SumF32(kLarge));
    ASSERT_TRUE(Finish(*cluster, Range(4))) << cluster->Describe(0);
    CheckAgreement(*cluster, Range(4));
  }
}

// Its channels begin where the members' are, which it learns last.
TEST(Membership, NewcomerTakesTheSegmentsOfAnOldGroup) {
  for (std::uint64_t seed = 1; seed <= 20; seed += kSweep) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    auto cluster = Formed(2, {.seed = seed});
    for (int i = 0; i < 4200; ++i) {
      SubmitAll(*cluster, Range(2), SumF32(1));
      ASSERT_TRUE(Finish(*cluster, Range(2)));
    }
    cluster->AddNode(1);
    ASSERT_TRUE(cluster->RunUntil([&] { return cluster->PendingText(2).find("UpdateView") != std::string::npos; }));
    cluster->RunEvents(200);
    SubmitAll(*cluster, Range(2), kUpdate);
    GoOnWhenReported(*cluster, Range(2), SumF32(kSmall));
    ASSERT_TRUE(cluster->RunUntil([&] { return cluster->Joined(2); }));
    cluster->Submit(2, SumF32(kSmall));
    ASSERT_TRUE(Finish(*cluster, Range(3)));
    CheckAgreement(*cluster, Range(3));
    EXPECT_EQ(cluster->StatusOf(2).lanes_lost, 0u);
    EXPECT_EQ(cluster->OutcomesOf(2).rbegin()->second.contributors.size(), 3u);
  }
}

TEST(Membership, SurvivorsAgreeWhetherAViewWaits) {
  int waits = 0;
  for (std::uint64_t point = 0; point < 60; point += kSweep) {
    SCOPED_TRACE("point " + std::to_string(point));
    auto cluster = Formed(3, {.seed = 4});
    cluster->AddNode(1);
    ASSERT_TRUE(cluster->RunUntil([&] { return cluster->PendingText(3).find("UpdateView") != std::string::npos; }));
    cluster->RunEvents(100);
    SubmitAll(*cluster, Range(3), SumF32(kSmall));
    cluster->RunEvents(point);
    cluster->Kill(1);
    ASSERT_TRUE(Finish(*cluster, {0, 2}));
    CheckAgreement(*cluster, {0, 2});
    waits += cluster->OutcomesOf(0).begin()->second.update_waits ? 1 : 0;
    ASSERT_FALSE(testing::Test::HasFailure());
  }
  EXPECT_GT(waits, 0);
}

TEST(Membership, MemberKilledWhileTheViewSwitches) {
  int admitted = 0, postponed = 0;
  for (std::uint64_t turn = 0; turn < 240; turn += kSweep) {
    const std::uint64_t point = turn / 2;
    const bool silently = (turn / kSweep) % 2 != 0;  // what it has sent is lost with it
    SCOPED_TRACE("point " + std::to_string(point));
    auto cluster = Formed(3, {.seed = 3});
    cluster->AddNode(1);
    ASSERT_TRUE(cluster->RunUntil([&] { return cluster->PendingText(3).find("UpdateView") != std::string::npos; }))
        << cluster->PendingText(3);
    cluster->RunEvents(100);
    SubmitAll(*cluster, Range(3), kUpdate);
    cluster->RunEvents(point);
    cluster->KillDaemon(cluster->HostOf(1), silently);
    ASSERT_TRUE(Finish(*cluster, {0, 2}));
    const Outcome& update = cluster->OutcomesOf(0).begin()->second;
    ASSERT_EQ(update.code, Code::kOk);
    // The newcomer is in if and only if success was reported to the members.
    SubmitAll(*cluster, {0, 2}, SumF32(kLarge));
    Nodes all = {0, 2};
    if (cluster->RunUntil([&] { return cluster->Joined(3); }, std::chrono::seconds(2))) {
      cluster->Submit(3, SumF32(kLarge));
      all.push_back(3);
      ++admitted;
    } else {
      ++postponed;
    }
    ASSERT_TRUE(Finish(*cluster, all));
    CheckAgreement(*cluster, all);
    ASSERT_FALSE(testing::Test::HasFailure());
  }
  EXPECT_GT(admitted, 0);
  EXPECT_GT(postponed, 0);
}

// The points go from its first packet to where it waits, prepared, for an UpdateView.
TEST(Membership, NewcomerKilledAtAnyPointDisturbsNobody) {
  const auto is_prepared = [](const Cluster& cluster) {
    return cluster.PendingText(3).find("UpdateView") != std::string::npos;
  };
  std::uint64_t prepared = 0;
  for (std::uint64_t point = 0; point < 600; point += kSanitized ? 75 : 7) {
    const bool silently = point % 2 != 0;
    SCOPED_TRACE("point " + std::to_string(point));
    auto cluster = Formed(3, {.seed = 5});
    cluster->AddNode(1);
    SubmitAll(*cluster, Range(3), SumF32(kLarge));
    cluster->RunEvents(point);
    prepared += is_prepared(*cluster) ? 1 : 0;
    cluster->KillDaemon(cluster->HostOf(3), silently);
    // Until the master has taken back what it had prepared.
    const TimePoint over = cluster->now() + std::chrono::seconds(3);
    while (cluster->now() < over) {
      ASSERT_TRUE(Finish(*cluster, Range(3)));
      SubmitAll(*cluster, Range(3), SumF32(kSmall));
      cluster->RunEvents(20);
    }
    ASSERT_TRUE(Finish(*cluster, Range(3)));
    SubmitAll(*cluster, Range(3), kUpdate);
    ASSERT_TRUE(Finish(*cluster, Range(3)));
    CheckAgreement(*cluster, Range(3));
    for (const std::uint32_t node : Range(3)) {
      EXPECT_FALSE(cluster->Ended(node));
      for (const auto& [name, outcome] : cluster->OutcomesOf(node)) {
        ASSERT_EQ(outcome.code, Code::kOk) << ToString(name);
        ASSERT_EQ(outcome.retries, 0U) << ToString(name);
      }
    }
    ASSERT_FALSE(testing::Test::HasFailure());
  }
  EXPECT_GT(prepared, 0U) << "it was killed too early each time";
}

TEST(Membership, UnreachableNewcomerLearnsWhyAndDisturbsNobody) {
  auto cluster = Formed(3);
  const std::uint32_t newcomer = cluster->AddNode(1);
  cluster->MakeUnreachable(newcomer);
  for (int i = 0; i < 20; ++i) {
    SubmitAll(*cluster, Range(3), SumF32(kLarge));
    ASSERT_TRUE(Finish(*cluster, Range(3)));
  }
  ASSERT_TRUE(cluster->RunUntil([&] { return cluster->PendingText(newcomer).find("timed out") != std::string::npos; }))
      << cluster->PendingText(newcomer);
  EXPECT_FALSE(cluster->Joined(newcomer));
  for (const auto& [name, outcome] : cluster->OutcomesOf(0)) {
    EXPECT_EQ(outcome.retries, 0u);
    EXPECT_FALSE(outcome.update_waits);
  }
}

// Four peers each wait for three. Nobody can dial one of them, whether it was the first to join or another.
TEST(Membership, OneWhomNobodyReachesHoldsNoFirstViewUp) {
  for (std::uint32_t unreachable = 0; unreachable < 4; ++unreachable) {
    auto cluster = std::make_unique<Cluster>(ClusterOptions{});
    for (std::uint32_t i = 0; i < 4; ++i) {
      cluster->AddNode(3);
      if (i == unreachable) cluster->MakeUnreachable(i);
    }
    const Nodes others = Without(Range(4), unreachable);
    ASSERT_TRUE(cluster->RunUntil([&] {
      return std::all_of(others.begin(), others.end(), [&](std::uint32_t node) { return cluster->Joined(node); });
    })) << cluster->PendingText(others[0]);
    EXPECT_FALSE(cluster->Joined(unreachable));
    SubmitAll(*cluster, others, SumF32(kLarge));
    ASSERT_TRUE(Finish(*cluster, others));
    CheckAgreement(*cluster, others);
    EXPECT_TRUE(cluster->RunUntil([&] {
      return cluster->PendingText(unreachable).find("goes on without") != std::string::npos;
    })) << cluster->PendingText(unreachable);
  }
}

// It may say so or the others may find out, and it may have any place among the ids.
TEST(Membership, WhoCannotBeDialledDialsTheOthersAndIsAMemberLikeThem) {
  for (const Inbound inbound : {Inbound::kBlocked, Inbound::kBlockedAndSaid}) {
    for (std::uint32_t hidden = 0; hidden < 3; ++hidden) {
      auto cluster = std::make_unique<Cluster>(ClusterOptions{});
      for (std::uint32_t i = 0; i < 3; ++i) cluster->AddNode(3, "", i == hidden ? inbound : Inbound::kOpen);
      ASSERT_TRUE(cluster->RunUntil([&] { return cluster->Joined(0) && cluster->Joined(1) && cluster->Joined(2); }))
          << cluster->PendingText(hidden);
      for (std::uint32_t i = 0; i < 3; ++i) {
        if (i == hidden) continue;
        cluster->CutControl(i, hidden);
        for (std::uint32_t lane = 0; lane < 2; ++lane) cluster->CutLane(i, hidden, LaneId(lane));
      }
      SubmitAll(*cluster, Range(3), SumF32(kLarge));
      ASSERT_TRUE(Finish(*cluster, Range(3)));
      for (const auto& [name, outcome] : cluster->OutcomesOf(0)) EXPECT_EQ(outcome.retries, 0u) << "repaired";
      cluster->Kill(hidden);
      const Nodes others = Without(Range(3), hidden);
      SubmitAll(*cluster, others, SumF32(kLarge));
      ASSERT_TRUE(Finish(*cluster, others));
      CheckAgreement(*cluster, others);
    }
  }
}

TEST(Membership, TwoWhomNobodyCanDialLearnSo) {
  auto cluster = std::make_unique<Cluster>(ClusterOptions{});
  for (std::uint32_t i = 0; i < 2; ++i) cluster->AddNode(2, "", Inbound::kBlockedAndSaid);
  for (std::uint32_t i = 0; i < 2; ++i) {
    EXPECT_TRUE(cluster->RunUntil([&] {
      return cluster->PendingText(i).find("neither can be dialled") != std::string::npos;
    })) << cluster->PendingText(i);
  }
}

TEST(Membership, PeersOfADaemonThatNobodyCanDialFindEachOther) {
  auto cluster = std::make_unique<Cluster>(ClusterOptions{});
  const Host host = cluster->AddDaemon("", Inbound::kBlockedAndSaid);
  for (int i = 0; i < 2; ++i) (void)cluster->Join(host, {.group = "g", .wait_world = 2});
  EXPECT_TRUE(cluster->RunUntil([&] { return cluster->Joined(0) && cluster->Joined(1); })) << cluster->PendingText(0);
}

TEST(Membership, LeaverFinishesItsOperationsAndTheOthersGoOn) {
  auto cluster = Formed(3);
  SubmitAll(*cluster, Range(3), SumF32(kSmall));
  SubmitAll(*cluster, Range(3), SumF32(kLarge));
  cluster->Leave(2);
  SubmitAll(*cluster, {0, 1}, SumF32(kLarge));
  ASSERT_TRUE(cluster->RunUntil([&] { return cluster->Ended(2); })) << cluster->failure();
  EXPECT_EQ(cluster->EndedCode(2), Code::kLeft);
  EXPECT_EQ(cluster->OutcomesOf(2).size(), 2u);
  ASSERT_TRUE(Finish(*cluster, {0, 1}));
  CheckAgreement(*cluster, {0, 1});
  EXPECT_EQ(cluster->OutcomesOf(0).rbegin()->second.contributors.size(), 2u);
}

}  // namespace
}  // namespace ringway::sim
