#include "tests/sim/scenario.h"

namespace ringway::sim {
namespace {

TEST(Cluster, HealthyGroupReducesEverySizeExactly) {
  for (const std::uint32_t world : {1u, 2u, 3u, 8u}) {
    auto cluster = Formed(world);
    for (const std::uint64_t count : {std::uint64_t{0}, std::uint64_t{1}, kSmall, kLarge, kHuge}) {
      SubmitAll(*cluster, Range(world), SumF32(count));
    }
    ASSERT_TRUE(Finish(*cluster, Range(world))) << "world " << world;
    CheckAgreement(*cluster, Range(world));
    for (const auto& [name, outcome] : cluster->OutcomesOf(0)) {
      EXPECT_EQ(outcome.code, Code::kOk);
      EXPECT_EQ(outcome.contributors.size(), world);
      EXPECT_EQ(outcome.retries, 0u);
    }
  }
}

TEST(Cluster, SubmissionsFarOutOfStepStillMeet) {
  auto cluster = Formed(3);
  for (std::uint32_t node = 0; node < 3; ++node) {
    for (int i = 0; i < 20; ++i) cluster->Submit(node, SumF32(kLarge), static_cast<std::uint32_t>(i % 2));
    cluster->RunEvents(3000);
  }
  ASSERT_TRUE(Finish(*cluster, Range(3)));
  CheckAgreement(*cluster, Range(3));
}

TEST(Cluster, SmallOperationsBeyondTheEagerWindowStillMove) {
  ClusterOptions options;
  options.master.eager_bytes_max = 20'000;  // holds the first segments of a few
  auto cluster = Formed(4, options);
  for (int i = 0; i < 60; ++i) SubmitAll(*cluster, Range(4), SumF32(kSmall), static_cast<std::uint32_t>(i % 3));
  ASSERT_TRUE(Finish(*cluster, Range(4))) << cluster->Describe(0);
  CheckAgreement(*cluster, Range(4));
}

// Kills node `victim` at every event of three operations of both kinds, in turn.
void KillEverywhere(std::uint32_t world, std::uint32_t victim, std::uint64_t count, std::uint64_t stride) {
  std::uint64_t total = 0;
  const auto start = [&](std::uint64_t seed) {
    auto cluster = Formed(world, {.seed = seed});
    for (int i = 0; i < 3; ++i) SubmitAll(*cluster, Range(world), SumF32(count));
    return cluster;
  };
  {
    auto cluster = start(7);
    const std::uint64_t before = cluster->events();
    ASSERT_TRUE(Finish(*cluster, Range(world)));
    total = cluster->events() - before;
  }
  const Nodes survivors = Without(Range(world), victim);
  std::uint64_t retried = 0, committed = 0;
  for (std::uint64_t point = 0; point <= total; point += stride * kSweep) {
    SCOPED_TRACE("killed after event " + std::to_string(point));
    auto cluster = start(7);
    cluster->RunEvents(point);
    cluster->Kill(victim);
    ASSERT_TRUE(Finish(*cluster, survivors));
    CheckAgreement(*cluster, survivors);
    for (const auto& [name, outcome] : cluster->OutcomesOf(survivors[0])) {
      ASSERT_EQ(outcome.code, Code::kOk) << outcome.text;
      (outcome.contributors.size() == world ? committed : retried) += 1;
    }
    // The group goes on.
    SubmitAll(*cluster, survivors, SumF32(kSmall));
    ASSERT_TRUE(Finish(*cluster, survivors));
    CheckAgreement(*cluster, survivors);
    ASSERT_FALSE(testing::Test::HasFailure());
  }
  EXPECT_GT(retried, 0u);
  EXPECT_GT(committed, 0u);
}

TEST(Cluster, PeerKilledAtEveryPointOfSmallOperations) { KillEverywhere(3, 1, kSmall, 1); }
TEST(Cluster, PeerKilledAtEveryPointOfLargeOperations) { KillEverywhere(4, 3, kJustLarge, 2); }
TEST(Cluster, OneOfTwoKilledAtEveryPoint) { KillEverywhere(2, 0, kJustLarge, 1); }

TEST(Cluster, TwoPeersKilledDuringEachOthersRecovery) {
  for (std::uint64_t seed = 1; seed <= 150; seed += kSweep) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    auto cluster = Formed(5, {.seed = seed});
    std::mt19937_64 random(seed);
    for (int i = 0; i < 4; ++i) SubmitAll(*cluster, Range(5), SumF32(i % 2 == 0 ? kSmall : kLarge));
    cluster->RunEvents(random() % 800);
    cluster->Kill(1);
    cluster->RunEvents(random() % 60);
    cluster->Kill(4);
    ASSERT_TRUE(Finish(*cluster, {0, 2, 3}));
    CheckAgreement(*cluster, {0, 2, 3});
    ASSERT_FALSE(testing::Test::HasFailure());
  }
}

TEST(Cluster, DownToAWorldOfOneTheResultIsTheOwnInput) {
  auto cluster = Formed(3);
  SubmitAll(*cluster, {0}, SumF32(kLarge));
  cluster->Kill(1);
  cluster->Kill(2);
  ASSERT_TRUE(Finish(*cluster, {0}));
  CheckAgreement(*cluster, {0});
  EXPECT_EQ(cluster->OutcomesOf(0).begin()->second.contributors.size(), 1u);
}

TEST(Cluster, BelowTheMinimumEveryOperationFailsWithItsType) {
  auto cluster = Formed(3, {.min_world = 3});
  SubmitAll(*cluster, {0, 1}, SumF32(kLarge));
  cluster->Kill(2);
  ASSERT_TRUE(Finish(*cluster, {0, 1}));
  for (const std::uint32_t node : {0u, 1u}) {
    EXPECT_EQ(cluster->OutcomesOf(node).begin()->second.code, Code::kWorldTooSmall);
  }
}

TEST(Cluster, FailOnPeerLossGivesEverySurvivorTheSameError) {
  auto cluster = Formed(3, {.fail_on_peer_loss = true});
  SubmitAll(*cluster, {0, 1}, SumF32(kLarge));  // node 2 has not submitted
  cluster->Kill(2);
  ASSERT_TRUE(Finish(*cluster, {0, 1}));
  CheckAgreement(*cluster, {0, 1});
  EXPECT_EQ(cluster->OutcomesOf(0).begin()->second.code, Code::kPeerLost);
  SubmitAll(*cluster, {0, 1}, SumF32(kLarge));
  ASSERT_TRUE(Finish(*cluster, {0, 1}));
  EXPECT_EQ(cluster->OutcomesOf(0).rbegin()->second.code, Code::kOk);
}

TEST(Cluster, MismatchedDescriptorsGiveEveryRankAnErrorThatNamesBoth) {
  for (const Descriptor& other : {SumF32(kSmall), Descriptor{OpKind::kAllReduce, DType::kI32, ReduceOp::kSum,
                                                             Codec::kNone, Algorithm::kRing, kLarge}}) {
    auto cluster = Formed(3);
    cluster->Submit(0, SumF32(kLarge));
    cluster->Submit(1, other);
    cluster->RunEvents(500);
    cluster->Submit(2, SumF32(kLarge));
    ASSERT_TRUE(Finish(*cluster, Range(3)));
    for (const std::uint32_t node : Range(3)) {
      const Outcome& outcome = cluster->OutcomesOf(node).begin()->second;
      EXPECT_EQ(outcome.code, Code::kMismatch);
      EXPECT_NE(outcome.text.find("100000 f32"), std::string::npos) << outcome.text;
      EXPECT_NE(outcome.text.find(ToString(other)), std::string::npos) << outcome.text;
    }
    SubmitAll(*cluster, Range(3), SumF32(kSmall));  // the sequence number is consumed, the next one works
    ASSERT_TRUE(Finish(*cluster, Range(3)));
    EXPECT_EQ(cluster->OutcomesOf(2).rbegin()->second.code, Code::kOk);
    CheckAgreement(*cluster, Range(3));
  }
}

// Rank 2 of four waits for rank 3 in a tree, which has sent to rank 0 alone.
TEST(Cluster, MismatchedAlgorithmsAreFoundWhereNoSegmentMeetsAnother) {
  for (const OpKind kind : {OpKind::kAllReduce, OpKind::kBarrier}) {
    const auto by = [kind](Algorithm algorithm) {
      const std::uint64_t count = kind == OpKind::kBarrier ? 0 : kSmall;
      return Descriptor{kind, DType::kF32, ReduceOp::kSum, Codec::kNone, algorithm, count};
    };
    for (const std::uint32_t odd : Range(4)) {
      auto cluster = Formed(4, {.stuck_after = std::chrono::minutes(1)});
      SubmitAll(*cluster, Without(Range(4), odd), by(Algorithm::kNaive));
      cluster->Submit(odd, by(Algorithm::kTree));
      ASSERT_TRUE(Finish(*cluster, Range(4))) << cluster->failure();
      CheckAgreement(*cluster, Range(4));
      EXPECT_EQ(cluster->OutcomesOf(odd).begin()->second.code, Code::kMismatch);
    }
  }
}

TEST(Cluster, InputThatCannotBeReadIsCancelledOnAllRanks) {
  auto cluster = Formed(3, {.staged_one_of = 1, .staging_fails_one_of = 1});
  SubmitAll(*cluster, {0, 1, 2}, SumF32(kLarge));
  ASSERT_TRUE(Finish(*cluster, {0, 1, 2}));
  CheckAgreement(*cluster, {0, 1, 2});
  EXPECT_EQ(cluster->OutcomesOf(2).begin()->second.code, Code::kCancelled);
  cluster->MendStaging();
  SubmitAll(*cluster, {0, 1, 2}, SumF32(kLarge));
  ASSERT_TRUE(Finish(*cluster, {0, 1, 2}));
  EXPECT_EQ(cluster->OutcomesOf(2).rbegin()->second.code, Code::kOk);
}

TEST(Cluster, CancelIsAgreedOnAllRanks) {
  std::map<Code, int> seen;
  for (std::uint64_t point = 0; point < 400; point += 5 * kSweep) {
    auto cluster = Formed(3);
    SubmitAll(*cluster, Range(3), SumF32(kLarge));
    cluster->RunEvents(point);
    cluster->Cancel(1, {ChannelId(0), 1});
    ASSERT_TRUE(Finish(*cluster, Range(3)));
    CheckAgreement(*cluster, Range(3));
    ++seen[cluster->OutcomesOf(0).begin()->second.code];
  }
  EXPECT_GT(seen[Code::kCancelled], 0);
  EXPECT_GT(seen[Code::kOk], 0);
}

// Node 1's input of the first operation never arrives, and the master that hears of its cancelling dies with that: if
// it is not said again, all wait for ever.
TEST(Cluster, CancelThatTheMasterTookAlongIsSaidAgain) {
  ClusterOptions options{.staged_one_of = 1};
  options.network.far = Cluster::kMaster;
  options.network.far_delay_max = std::chrono::milliseconds(20);
  for (std::uint64_t point = 0; point < 60; ++point) {
    auto cluster = Formed(3, options);
    cluster->StopStaging(1);
    for (int i = 0; i < 2; ++i) SubmitAll(*cluster, Range(3), SumF32(kLarge));
    cluster->Cancel(0, {ChannelId(0), 2});
    cluster->RunEvents(point);
    cluster->KillMaster();
    cluster->Cancel(1, {ChannelId(0), 1});
    cluster->RunEvents(20);
    cluster->StartMaster();
    ASSERT_TRUE(Finish(*cluster, Range(3))) << "after " << point << " events";
    CheckAgreement(*cluster, Range(3));
    EXPECT_EQ(cluster->OutcomesOf(0).begin()->second.code, Code::kCancelled);
  }
}

TEST(Cluster, NobodyLearnsOfAnAgreedFailureWhileFrozen) {
  auto cluster = Formed(3);
  cluster->Silence(Cluster::kMaster, cluster->HostOf(2));
  cluster->Submit(0, SumF32(kLarge));
  cluster->Cancel(0, {ChannelId(0), 1});
  ASSERT_TRUE(Finish(*cluster, {0}));
  EXPECT_EQ(cluster->OutcomesOf(0).begin()->second.code, Code::kCancelled);
  const Epoch agreed = cluster->StatusOf(0).epoch;
  ASSERT_TRUE(cluster->RunUntil([&] { return cluster->StatusOf(1).epoch == agreed; }));
  // Node 1 knows of it, node 2 never hears. The one that holds it dies, and node 1 submits after it has reported.
  cluster->Kill(0);
  ASSERT_TRUE(cluster->RunUntil([&] { return cluster->StatusOf(1).frozen; }));
  cluster->Submit(1, SumF32(kLarge));
  cluster->RunEvents(20);
  cluster->Unsilence(Cluster::kMaster, cluster->HostOf(2));
  ASSERT_TRUE(cluster->RunUntil([&] { return cluster->StatusOf(2).epoch > agreed; }));
  cluster->Submit(2, SumF32(kLarge));
  ASSERT_TRUE(Finish(*cluster, {1, 2})) << cluster->Describe(1) << cluster->Describe(2);
  CheckAgreement(*cluster, {1, 2});
}

TEST(Cluster, PayloadOfAStoppedViewIsNotJudgedByItsChecksum) {
  for (std::uint64_t seed = 1; seed <= 100; seed += kSweep) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    ClusterOptions options{.seed = seed};
    options.network.late_one_of = 4;
    options.network.late_max = std::chrono::milliseconds(50);
    auto cluster = Formed(3, options);
    for (int i = 0; i < 6; ++i) SubmitAll(*cluster, {0, 1}, SumF32(kJustLarge));
    cluster->RunEvents(seed % 20);
    for (std::uint64_t seq = 1; seq <= 6; ++seq) cluster->Cancel(0, {ChannelId(0), seq});
    // Their trainers reuse the memory once that is reported, while frames for node 2, which is late, are on the way.
    ASSERT_TRUE(Finish(*cluster, {0, 1}));
    for (int i = 0; i < 6; ++i) SubmitAll(*cluster, {2}, SumF32(kJustLarge));
    SubmitAll(*cluster, Range(3), SumF32(kSmall));
    ASSERT_TRUE(Finish(*cluster, Range(3)));
    CheckAgreement(*cluster, Range(3));
    ASSERT_FALSE(testing::Test::HasFailure());
  }
}

TEST(Cluster, CutLaneCostsWhatIsOnItAndNoRetry) {
  std::uint64_t resent = 0;
  for (const std::uint64_t count : {kSmall, kLarge, kHuge}) {
    for (std::uint64_t point = 0; point < 300; point += 7 * kSweep) {
      auto cluster = Formed(3);
      SubmitAll(*cluster, Range(3), SumF32(count));
      cluster->RunEvents(point);
      cluster->CutLane(0, 1);
      ASSERT_TRUE(Finish(*cluster, Range(3))) << "cut after " << point;
      CheckAgreement(*cluster, Range(3));
      const Outcome& outcome = cluster->OutcomesOf(0).begin()->second;
      EXPECT_EQ(outcome.contributors.size(), 3u);
      EXPECT_EQ(outcome.retries, 0u) << "cut after " << point;
      resent += cluster->StatusOf(0).segments_resent + cluster->StatusOf(1).segments_resent;
    }
  }
  EXPECT_GT(resent, 0u);
}

TEST(Cluster, ControlLinkThatBreaksDisturbsNobody) {
  for (const std::uint64_t count : {kSmall, kLarge, kHuge}) {
    for (std::uint64_t point = 0; point < 300; point += 7 * kSweep) {
      auto cluster = Formed(3);
      SubmitAll(*cluster, Range(3), SumF32(count));
      cluster->RunEvents(point);
      cluster->CutControl(0, 1);
      ASSERT_TRUE(Finish(*cluster, Range(3))) << "cut after " << point;
      CheckAgreement(*cluster, Range(3));
      const Outcome& outcome = cluster->OutcomesOf(0).begin()->second;
      EXPECT_EQ(outcome.contributors.size(), 3u);
      EXPECT_EQ(outcome.retries, 0u) << "cut after " << point;
      EXPECT_TRUE(cluster->RunUntil([&] { return cluster->StatusOf(0).controls_lost > 0; }));
    }
  }
}

TEST(Cluster, LanesThatBreakAgainAndAgainOnlyCostTime) {
  for (std::uint64_t seed = 1; seed <= 10; seed += kSweep) {
    auto cluster = Formed(3, {.seed = seed});
    for (int i = 0; i < 4; ++i) SubmitAll(*cluster, Range(3), SumF32(kHuge));
    for (int cut = 0; cut < 40; ++cut) {
      cluster->RunEvents(50 + 13 * seed);
      cluster->CutLane(static_cast<std::uint32_t>(cut) % 3, static_cast<std::uint32_t>(cut + 1) % 3);
    }
    ASSERT_TRUE(Finish(*cluster, Range(3))) << "seed " << seed;
    CheckAgreement(*cluster, Range(3));
    for (const auto& [name, outcome] : cluster->OutcomesOf(0)) EXPECT_EQ(outcome.retries, 0u) << "seed " << seed;
  }
}

TEST(Cluster, LanesThatBreakOneAfterTheOtherAreAllOpenedAgain) {
  for (std::uint64_t between = 1; between < 100; between += kSweep) {
    auto cluster = Formed(2, {.lanes = 3});
    cluster->CutLane(0, 1, LaneId(0));
    cluster->RunEvents(between);
    cluster->CutLane(0, 1, LaneId(1));
    cluster->RunUntil([] { return false; }, std::chrono::seconds(2));
    cluster->CutLane(0, 1, LaneId(2));
    cluster->CutLane(0, 1, LaneId(0));
    SubmitAll(*cluster, Range(2), SumF32(kLarge));
    ASSERT_TRUE(Finish(*cluster, Range(2))) << "after " << between;
    EXPECT_EQ(cluster->OutcomesOf(0).begin()->second.contributors.size(), 2u) << "after " << between;
    EXPECT_EQ(cluster->StatusOf(0).lanes_lost, 4u) << "after " << between;
  }
}

TEST(Cluster, MoreLanesComeAndGoWithWhatIsOnThem) {
  for (std::uint64_t between = 1; between < 300; between += 23 * kSweep) {
    for (const std::uint32_t asks : {0U, 1U}) {
      auto cluster = Formed(2, {.lanes = 9, .lanes_max = 12});
      const auto up = [&](std::uint32_t lanes) {
        return cluster->RunUntil([&] { return cluster->LanesUp(0, 1) == lanes && cluster->LanesUp(1, 0) == lanes; },
                                 std::chrono::seconds(2));
      };
      SubmitAll(*cluster, Range(2), SumF32(kHuge));
      cluster->RunEvents(between);
      cluster->WantLanes(asks, 1 - asks, 40);
      ASSERT_TRUE(up(12)) << "all that it may have";
      SubmitAll(*cluster, Range(2), SumF32(kHuge));
      cluster->RunEvents(between);
      cluster->WantLanes(asks, 1 - asks, 10);
      ASSERT_TRUE(up(10)) << "after " << between;
      ASSERT_TRUE(Finish(*cluster, Range(2))) << "after " << between;
      CheckAgreement(*cluster, Range(2));
      EXPECT_EQ(cluster->StatusOf(0).lanes_lost + cluster->StatusOf(1).lanes_lost, 0u);
      for (const auto& [name, outcome] : cluster->OutcomesOf(0)) EXPECT_EQ(outcome.retries, 0u);
    }
  }
}

TEST(Cluster, SmallResultsFindRoomBesideLargeOnes) {
  constexpr std::uint64_t kRoom = 1'000'000;
  ClusterOptions options{.delays_are_known = true, .retained_bytes_max = kRoom};
  options.master.retained_bytes_max = kRoom;
  auto cluster = Formed(2, options);
  for (int i = 0; i < 20; ++i) cluster->Submit(0, SumF32(kJustLarge));
  const std::uint64_t of_large = cluster->StatusOf(0).retained_bytes;
  EXPECT_EQ(of_large, 9 * 4 * kJustLarge);
  cluster->Submit(0, SumF32(kSmall));
  EXPECT_EQ(cluster->StatusOf(0).retained_bytes, of_large + 4 * kSmall);
}

TEST(Cluster, WhatIsRetainedDoesNotWaitForDone) {
  static constexpr int kRuns = 20;
  const auto time_with = [](std::uint64_t retained_bytes_max) {
    Duration time{};
    for (std::uint64_t seed = 1; seed <= kRuns; ++seed) {
      ClusterOptions options{.seed = seed, .delays_are_known = true};
      options.network.delay_min = options.network.delay_max = std::chrono::milliseconds(20);
      options.master.retained_bytes_max = retained_bytes_max;
      auto cluster = Formed(3, options);
      const TimePoint before = cluster->now();
      SubmitAll(*cluster, Range(3), SumF32(kLarge));
      EXPECT_TRUE(Finish(*cluster, Range(3)));
      CheckAgreement(*cluster, Range(3));
      time += cluster->now() - before;
    }
    return time / kRuns;
  };
  EXPECT_GT(time_with(0) - time_with(4 * kLarge), std::chrono::milliseconds(20)) << "a message takes that and more";
  EXPECT_LT(time_with(0) - time_with(4 * kLarge - 1), std::chrono::milliseconds(10)) << "it is larger";
}

TEST(Cluster, OverdueOperationFailsOnAllRanksAndNamesWhomItWaitedFor) {
  for (const std::uint64_t count : {kSmall, kLarge}) {
    ClusterOptions options;
    options.op_deadline = std::chrono::seconds(10);
    auto cluster = Formed(3, options);
    SubmitAll(*cluster, {0, 1}, SumF32(count));
    ASSERT_TRUE(Finish(*cluster, {0, 1})) << cluster->failure();
    cluster->Submit(2, SumF32(count));  // its trainer was asleep
    ASSERT_TRUE(Finish(*cluster, {2}));
    for (const std::uint32_t node : Range(3)) {
      const Outcome& outcome = cluster->OutcomesOf(node).begin()->second;
      EXPECT_EQ(outcome.code, Code::kDeadline);
      EXPECT_NE(outcome.text.find("last for p2"), std::string::npos) << outcome.text;
    }
    SubmitAll(*cluster, Range(3), SumF32(count));
    ASSERT_TRUE(Finish(*cluster, Range(3)));
    EXPECT_EQ(cluster->OutcomesOf(0).rbegin()->second.contributors.size(), 3u) << "nobody was dropped";
  }
}

TEST(Cluster, HalfReadFramesOfTheDeadGiveTheirRoomBack) {
  for (std::uint64_t point = 0; point < 60; point += kSweep) {
    SCOPED_TRACE("point " + std::to_string(point));
    auto cluster = Formed(3);
    SubmitAll(*cluster, {0, 1}, SumF32(kLarge));  // node 2 holds what comes for it
    cluster->RunEvents(point);
    for (const std::uint32_t node : {0U, 1U}) cluster->KillDaemon(cluster->HostOf(node), true);
    cluster->Submit(2, SumF32(kLarge));
    ASSERT_TRUE(Finish(*cluster, {2}));
    EXPECT_EQ(cluster->StatusOf(2).held_bytes, 0u);
  }
}

TEST(Cluster, ManyOperationsInFlightAllHaveTheirOwnExactOutcomeAfterADeath) {
  for (std::uint64_t seed = 1; seed <= 20; seed += kSweep) {
    auto cluster = Formed(4, {.seed = seed});
    for (int i = 0; i < 100; ++i) {
      SubmitAll(*cluster, Range(4), SumF32(i % 3 == 0 ? 20000 : kSmall), static_cast<std::uint32_t>(i % 4));
    }
    cluster->RunEvents(4000 + 100 * seed);
    cluster->Kill(2);
    ASSERT_TRUE(Finish(*cluster, {0, 1, 3})) << "seed " << seed;
    CheckAgreement(*cluster, {0, 1, 3});
    EXPECT_EQ(cluster->OutcomesOf(0).size(), 100u);
    ASSERT_FALSE(testing::Test::HasFailure());
  }
}

}  // namespace
}  // namespace ringway::sim
