// Groups of trainers that share a daemon, wholly or in part: nothing is sent between them, and each still ends alone.
#include <chrono>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "tests/sim/scenario.h"

namespace ringway::sim {
namespace {

// `world` nodes, of which the first `together` share a daemon and the others have one each.
std::unique_ptr<Cluster> FormedOnAHost(std::uint32_t together, std::uint32_t world, std::uint64_t seed = 1) {
  auto cluster = std::make_unique<Cluster>(ClusterOptions{.seed = seed});
  const Host host = cluster->AddDaemon();
  for (std::uint32_t i = 0; i < together; ++i) cluster->Join(host, {.wait_world = world});
  for (std::uint32_t i = together; i < world; ++i) cluster->AddNode(world);
  const Nodes all = Range(world);
  EXPECT_TRUE(cluster->RunUntil(
      [&] { return std::all_of(all.begin(), all.end(), [&](std::uint32_t node) { return cluster->Joined(node); }); }));
  return cluster;
}

// Nodes of several daemons, `sizes` of each, at sites of their own.
std::unique_ptr<Cluster> FormedOnHosts(const std::vector<std::uint32_t>& sizes, std::uint64_t seed = 1) {
  auto cluster = std::make_unique<Cluster>(ClusterOptions{
      .seed = seed,
      .delays_are_known = true,
      .site_uplink = 1'000'000,
      .network = {.delay_min = std::chrono::milliseconds(5), .delay_max = std::chrono::milliseconds(6)}});
  const std::uint32_t world = std::accumulate(sizes.begin(), sizes.end(), 0U);
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const Host host = cluster->AddDaemon("site" + std::to_string(i));
    for (std::uint32_t node = 0; node < sizes[i]; ++node) cluster->Join(host, {.wait_world = world});
  }
  const Nodes all = Range(world);
  EXPECT_TRUE(cluster->RunUntil(
      [&] { return std::all_of(all.begin(), all.end(), [&](std::uint32_t node) { return cluster->Joined(node); }); }));
  return cluster;
}

Descriptor HierarchicalSum(std::uint64_t count) {
  Descriptor descriptor = SumF32(count);
  descriptor.schedule = Algorithm::kHierarchical;
  return descriptor;
}

// What the members of a daemon's own group have sent, in bytes of segments.
std::uint64_t SentBy(const Cluster& cluster, std::uint32_t node) { return cluster.StatusOf(node).bytes_sent; }

TEST(Host, RanksOfOneDaemonReduceEverySizeAndSendNothing) {
  for (const std::uint32_t world : {2u, 3u, 5u}) {
    auto cluster = FormedOnAHost(world, world);
    for (const std::uint64_t count : {std::uint64_t{0}, std::uint64_t{1}, kSmall, kLarge, kHuge})
      SubmitAll(*cluster, Range(world), SumF32(count));
    ASSERT_TRUE(Finish(*cluster, Range(world))) << cluster->Describe(0);
    CheckAgreement(*cluster, Range(world));
    for (const auto& [name, outcome] : cluster->OutcomesOf(0)) {
      EXPECT_EQ(outcome.code, Code::kOk) << outcome.text;
      EXPECT_EQ(outcome.contributors.size(), world);
    }
    EXPECT_EQ(SentBy(*cluster, 0), 0U);
  }
}

TEST(Host, ManyOperationsOnSeveralChannelsAreDoneInAnyOrderOfTheirSubmission) {
  auto cluster = FormedOnAHost(3, 3);
  for (std::uint32_t node = 0; node < 3; ++node) {
    for (std::uint32_t i = 0; i < 30; ++i) cluster->Submit(node, SumF32(i % 5 == 0 ? kLarge : kSmall), i % 3);
    cluster->RunEvents(500);
  }
  ASSERT_TRUE(Finish(*cluster, Range(3)));
  CheckAgreement(*cluster, Range(3));
}

// Does `fault` to node 1 after each event of three operations, in turn; the others stay.
void FailEverywhere(std::uint32_t together, std::uint32_t world, std::uint64_t count,
                    const std::function<void(Cluster&)>& fault) {
  const auto start = [&] {
    auto cluster = FormedOnAHost(together, world, 7);
    for (int i = 0; i < 3; ++i) SubmitAll(*cluster, Range(world), SumF32(count));
    return cluster;
  };
  std::uint64_t total = 0;
  {
    auto cluster = start();
    const std::uint64_t before = cluster->events();
    ASSERT_TRUE(Finish(*cluster, Range(world)));
    total = cluster->events() - before;
  }
  const Nodes others = Without(Range(world), 1);
  for (std::uint64_t point = 0; point <= total; point += kSweep) {
    SCOPED_TRACE("after event " + std::to_string(point));
    auto cluster = start();
    cluster->RunEvents(point);
    fault(*cluster);
    ASSERT_TRUE(Finish(*cluster, others)) << cluster->Describe(0);
    CheckAgreement(*cluster, others);
    SubmitAll(*cluster, others, SumF32(kSmall));
    ASSERT_TRUE(Finish(*cluster, others)) << cluster->Describe(0);
    CheckAgreement(*cluster, others);
    ASSERT_TRUE(cluster->RunUntil([&] { return cluster->WorldOf(0) == world - 1; }));
    ASSERT_FALSE(testing::Test::HasFailure());
  }
}

TEST(Host, TrainerOfASharedDaemonDiesAtEveryPoint) {
  FailEverywhere(3, 3, kJustLarge, [](Cluster& cluster) { cluster.AbandonTrainer(1); });
  FailEverywhere(3, 3, kSmall, [](Cluster& cluster) { cluster.AbandonTrainer(1); });
}

TEST(Host, PeerOfASharedDaemonIsEvictedAtEveryPoint) {
  FailEverywhere(3, 3, kJustLarge, [](Cluster& cluster) { cluster.Evict(1); });
}

// The others' next view is of one daemon: they go on without links.
TEST(Host, DaemonBesideASharedOneDiesAtEveryPoint) {
  const auto start = [] {
    auto cluster = FormedOnAHost(3, 4, 7);
    for (int i = 0; i < 2; ++i) SubmitAll(*cluster, Range(4), SumF32(kJustLarge));
    return cluster;
  };
  auto whole = start();
  const std::uint64_t before = whole->events();
  ASSERT_TRUE(Finish(*whole, Range(4)));
  const std::uint64_t total = whole->events() - before;
  for (std::uint64_t point = 0; point <= total; point += 3 * kSweep) {
    SCOPED_TRACE("after event " + std::to_string(point));
    auto cluster = start();
    cluster->RunEvents(point);
    cluster->Kill(3);
    ASSERT_TRUE(Finish(*cluster, Range(3))) << cluster->Describe(0);
    CheckAgreement(*cluster, Range(3));
    ASSERT_TRUE(cluster->RunUntil([&] {
      if (cluster->WorldOf(0) != 3 && cluster->AllDone(Range(3))) SubmitAll(*cluster, Range(3), SumF32(kSmall));
      return cluster->WorldOf(0) == 3 && cluster->AllDone(Range(3));
    }));
    const std::uint64_t sent = SentBy(*cluster, 0);
    SubmitAll(*cluster, Range(3), SumF32(kLarge));
    ASSERT_TRUE(Finish(*cluster, Range(3))) << cluster->Describe(0);
    CheckAgreement(*cluster, Range(3));
    EXPECT_EQ(SentBy(*cluster, 0), sent);
    ASSERT_FALSE(testing::Test::HasFailure());
  }
}

TEST(Host, SharedDaemonThatDiesIsOneLossOfAllItsPeers) {
  auto cluster = FormedOnAHost(3, 5);
  SubmitAll(*cluster, Range(5), SumF32(kLarge));
  cluster->RunEvents(100);
  cluster->KillDaemon(cluster->HostOf(0));
  const Nodes left = {3, 4};
  ASSERT_TRUE(Finish(*cluster, left)) << cluster->Describe(3);
  CheckAgreement(*cluster, left);
  EXPECT_EQ(cluster->WorldOf(3), 2U);
}

TEST(Host, RanksOfOneDaemonThatDifferAllFail) {
  for (const std::uint64_t count : {kSmall, kLarge}) {
    auto cluster = FormedOnAHost(3, 3);
    cluster->Submit(0, SumF32(count));
    cluster->Submit(1, SumF32(count + 1));
    cluster->Submit(2, SumF32(count));
    ASSERT_TRUE(Finish(*cluster, Range(3))) << cluster->Describe(0);
    CheckAgreement(*cluster, Range(3));
    for (const std::uint32_t node : Range(3))
      EXPECT_EQ(cluster->OutcomesOf(node).begin()->second.code, Code::kMismatch);
  }
}

// One of them is no all-reduce, and so needs links.
TEST(Host, OtherKindsOfOperationsDifferToo) {
  auto cluster = FormedOnAHost(3, 3);
  Descriptor gather = SumF32(kSmall);
  gather.kind = OpKind::kAllGather;
  cluster->Submit(0, SumF32(kSmall));
  cluster->Submit(1, gather);
  cluster->Submit(2, SumF32(kSmall));
  ASSERT_TRUE(Finish(*cluster, Range(3))) << cluster->Describe(0);
  CheckAgreement(*cluster, Range(3));
  EXPECT_EQ(cluster->OutcomesOf(0).begin()->second.code, Code::kMismatch);
}

TEST(Host, NewcomerOfTheSameDaemonIsLetIn) {
  auto cluster = FormedOnAHost(2, 2);
  const std::uint32_t newcomer = cluster->Join(cluster->HostOf(0), {});
  ASSERT_TRUE(cluster->RunUntil([&] {
    if (cluster->WorldOf(0) == 2 && cluster->AllDone(Range(2))) SubmitAll(*cluster, Range(2), kUpdate);
    return cluster->Joined(newcomer);
  })) << cluster->PendingText(newcomer);
  ASSERT_TRUE(Finish(*cluster, Range(2)));
  SubmitAll(*cluster, Range(3), SumF32(kLarge));
  ASSERT_TRUE(Finish(*cluster, Range(3))) << cluster->Describe(0);
  CheckAgreement(*cluster, Range(3));
  EXPECT_EQ(cluster->WorldOf(0), 3U);
}

// Each of two hosts sends what one rank alone would, whatever the number of its ranks.
TEST(Host, HierarchicalSumsLeaveAHostAsOneRanksBytes) {
  for (const auto& sizes : std::vector<std::vector<std::uint32_t>>{{4, 4}, {1, 3}, {2, 3}}) {
    auto cluster = FormedOnHosts(sizes);
    const Nodes all = Range(sizes[0] + sizes[1]);
    const auto sent = [&] {
      std::uint64_t bytes = 0;
      for (std::uint32_t node = 0; node < sizes[0]; ++node) bytes += SentBy(*cluster, node);
      return bytes;
    };
    const std::uint64_t before = sent();
    for (const std::uint64_t count : {kSmall, kLarge, kHuge}) SubmitAll(*cluster, all, HierarchicalSum(count));
    ASSERT_TRUE(Finish(*cluster, all)) << cluster->Describe(0);
    CheckAgreement(*cluster, all);
    for (const auto& [name, outcome] : cluster->OutcomesOf(0)) EXPECT_EQ(outcome.code, Code::kOk) << outcome.text;
    const std::uint64_t bytes = sent() - before;
    const std::uint64_t least = (kSmall + kLarge + kHuge) * sizeof(float);
    EXPECT_GE(bytes, least);
    EXPECT_LE(bytes, least + least / 50);  // the headers
  }
}

TEST(Host, EmptyHierarchicalSumsEnd) {
  auto cluster = FormedOnHosts({2, 2});
  SubmitAll(*cluster, Range(4), HierarchicalSum(0));
  ASSERT_TRUE(Finish(*cluster, Range(4))) << cluster->Describe(0);
  CheckAgreement(*cluster, Range(4));
}

// Does `fault` to node 1 after each event of two sums of two hosts, in turn; `left` stay.
void FailBetweenHosts(std::uint64_t count, std::uint64_t stride, const Nodes& left,
                      const std::function<void(Cluster&)>& fault) {
  const auto start = [&] {
    auto cluster = FormedOnHosts({2, 3}, 7);
    for (int i = 0; i < 2; ++i) SubmitAll(*cluster, Range(5), HierarchicalSum(count));
    return cluster;
  };
  auto whole = start();
  const std::uint64_t before = whole->events();
  ASSERT_TRUE(Finish(*whole, Range(5)));
  const std::uint64_t total = whole->events() - before;
  for (std::uint64_t point = 0; point <= total; point += stride) {
    SCOPED_TRACE("after event " + std::to_string(point));
    auto cluster = start();
    cluster->RunEvents(point);
    fault(*cluster);
    ASSERT_TRUE(Finish(*cluster, left)) << cluster->Describe(left[0]);
    CheckAgreement(*cluster, left);
    SubmitAll(*cluster, left, HierarchicalSum(kSmall));
    ASSERT_TRUE(Finish(*cluster, left)) << cluster->Describe(left[0]);
    CheckAgreement(*cluster, left);
    ASSERT_FALSE(testing::Test::HasFailure());
  }
}

TEST(Host, TrainerOfOneOfTwoHostsDiesAtEveryPoint) {
  FailBetweenHosts(kJustLarge, kSweep, {0, 2, 3, 4}, [](Cluster& cluster) { cluster.AbandonTrainer(1); });
  FailBetweenHosts(kSmall, kSweep, {0, 2, 3, 4}, [](Cluster& cluster) { cluster.AbandonTrainer(1); });
}

TEST(Host, PeerOfOneOfTwoHostsIsEvictedAtEveryPoint) {
  FailBetweenHosts(kJustLarge, kSweep, {0, 2, 3, 4}, [](Cluster& cluster) { cluster.Evict(1); });
}

TEST(Host, OneOfTwoHostsDiesAtEveryPoint) {
  FailBetweenHosts(kJustLarge, 3 * kSweep, {2, 3, 4}, [](Cluster& cluster) { cluster.KillDaemon(cluster.HostOf(0)); });
}

TEST(Host, RankOfOneOfTwoHostsThatDiffersFailsAll) {
  for (const std::uint64_t count : {kSmall, kLarge}) {
    for (const Algorithm other : {Algorithm::kHierarchical, Algorithm::kDirect}) {
      auto cluster = FormedOnHosts({2, 2});
      Descriptor odd = HierarchicalSum(other == Algorithm::kHierarchical ? count + 1 : count);
      odd.schedule = other;
      for (const std::uint32_t node : Range(4)) cluster->Submit(node, node == 1 ? odd : HierarchicalSum(count));
      ASSERT_TRUE(Finish(*cluster, Range(4))) << cluster->Describe(0);
      CheckAgreement(*cluster, Range(4));
      for (const std::uint32_t node : Range(4))
        EXPECT_EQ(cluster->OutcomesOf(node).begin()->second.code, Code::kMismatch);
    }
  }
}

}  // namespace
}  // namespace ringway::sim
