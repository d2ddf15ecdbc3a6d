// Probes of paths: they spend what they may, and disturb nothing.
#include <algorithm>

#include "daemon/flow/warmer.h"
#include "tests/sim/scenario.h"

namespace ringway::sim {
namespace {

constexpr std::uint64_t kFew = 600'000;  // more than two frames
constexpr std::uint64_t kMany = 40'000'000;

std::unique_ptr<Cluster> FormedWithProbes(std::uint32_t world, std::uint64_t probe_bytes) {
  ClusterOptions options;
  options.probe_bytes = probe_bytes;
  return Formed(world, options);
}

std::unique_ptr<Cluster> FormedFarWithProbes(std::uint32_t world, std::uint64_t probe_bytes) {
  ClusterOptions options;
  options.probe_bytes = probe_bytes;
  options.delays_are_known = true;
  return Formed(world, options);
}

std::uint64_t ProbeBytes(const Cluster& cluster, std::uint32_t node) { return cluster.StatusOf(node).probe_bytes; }

TEST(ProbeTest, EachPairIsProbedBothWaysAndTwiceIfItDoesNotSettleThenAllTogether) {
  const auto cluster = FormedWithProbes(3, kFew);
  const auto probed = [&] {
    return std::ranges::all_of(Range(3),
                               [&](std::uint32_t node) { return ProbeBytes(*cluster, node) == (2 + 1) * 2 * kFew; });
  };
  EXPECT_TRUE(cluster->RunUntil(probed));
  EXPECT_FALSE(cluster->RunUntil([&] { return !probed(); }, std::chrono::seconds(40)));
  EXPECT_EQ(cluster->StatusOf(0).ops_done, 0u);
  EXPECT_EQ(cluster->StatusOf(0).bytes_sent, 0u) << "that is of operations";
}

TEST(ProbeTest, AnotherGroupOfTheSameHostsProbesNothingAgain) {
  const auto cluster = FormedWithProbes(2, kFew);
  const auto probed = [&](std::uint32_t node) { return ProbeBytes(*cluster, node) == 2 * kFew; };
  ASSERT_TRUE(cluster->RunUntil([&] { return probed(0) && probed(1); }));
  for (const std::uint32_t node : Range(2)) cluster->Join(cluster->HostOf(node), {.group = "other", .wait_world = 2});
  ASSERT_TRUE(cluster->RunUntil([&] { return cluster->Joined(2) && cluster->Joined(3); }));
  EXPECT_FALSE(cluster->RunUntil([&] { return ProbeBytes(*cluster, 2) + ProbeBytes(*cluster, 3) > 0; },
                                 std::chrono::minutes(1)));
}

TEST(ProbeTest, NothingIsProbedBesideAnOperationOfAnotherGroup) {
  ClusterOptions options;
  options.probe_bytes = kMany;
  const auto cluster = Formed(2, options);
  cluster->Submit(0, SumF32(kLarge));  // in flight until the other submits it
  for (const std::uint32_t node : Range(2)) cluster->Join(cluster->HostOf(node), {.group = "other", .wait_world = 2});
  ASSERT_TRUE(cluster->RunUntil([&] { return cluster->Joined(2) && cluster->Joined(3); }));
  const std::uint64_t before = ProbeBytes(*cluster, 1) + ProbeBytes(*cluster, 3);
  const auto more = [&] {
    return ProbeBytes(*cluster, 2) > 0 || ProbeBytes(*cluster, 1) + ProbeBytes(*cluster, 3) > before;
  };
  EXPECT_FALSE(cluster->RunUntil(more, std::chrono::seconds(20))) << "nor from a host that rests to one that does not";
  cluster->Submit(1, SumF32(kLarge));
  EXPECT_TRUE(Finish(*cluster, Range(2)));
  EXPECT_TRUE(cluster->RunUntil(more));
}

TEST(ProbeTest, AProbeWaitsForOperationsAndGoesOnAfterThem) {
  const auto cluster = FormedWithProbes(2, kMany);
  ASSERT_TRUE(cluster->RunUntil([&] { return ProbeBytes(*cluster, 0) > 0; }));
  cluster->Submit(0, SumF32(kLarge));
  const std::uint64_t before = ProbeBytes(*cluster, 0);
  ASSERT_LT(before, kMany);
  EXPECT_FALSE(cluster->RunUntil([&] { return ProbeBytes(*cluster, 0) > before; }, std::chrono::seconds(2)));
  cluster->Submit(1, SumF32(kLarge));
  EXPECT_TRUE(Finish(*cluster, Range(2)));
  EXPECT_TRUE(cluster->RunUntil([&] { return ProbeBytes(*cluster, 0) > before; }));
  CheckAgreement(*cluster, Range(2));
}

TEST(ProbeTest, ALaneThatBreaksInAProbeLosesNothingOfAnOperation) {
  const auto cluster = FormedWithProbes(2, kMany);
  ASSERT_TRUE(cluster->RunUntil([&] { return ProbeBytes(*cluster, 0) > 0; }));
  SubmitAll(*cluster, Range(2), SumF32(kHuge));
  ASSERT_TRUE(cluster->RunUntil([&] { return cluster->StatusOf(0).bytes_sent > 0; }));
  cluster->CutLane(0, 1);
  EXPECT_TRUE(Finish(*cluster, Range(2)));
  CheckAgreement(*cluster, Range(2));
  EXPECT_EQ(cluster->StatusOf(0).ops_retried, 0u);
}

TEST(ProbeTest, APeerThatDiesInAProbeIsLostAsEver) {
  const auto cluster = FormedWithProbes(3, kMany);
  ASSERT_TRUE(cluster->RunUntil([&] { return ProbeBytes(*cluster, 0) > 0; }));
  cluster->Kill(1);
  SubmitAll(*cluster, {0, 2}, SumF32(kLarge));
  EXPECT_TRUE(Finish(*cluster, {0, 2}));
  CheckAgreement(*cluster, {0, 2});
}

TEST(ProbeTest, ANewcomersPathsAreWarmedBeforeItIsInTheViewAndProbedAfter) {
  const auto cluster = FormedFarWithProbes(2, kFew);
  ASSERT_TRUE(cluster->RunUntil([&] { return ProbeBytes(*cluster, 0) == kFew; }));
  const std::uint32_t newcomer = cluster->AddNode(1);
  const auto sent = [&] { return cluster->IdOf(newcomer).value != 0 ? ProbeBytes(*cluster, newcomer) : 0; };
  ASSERT_TRUE(cluster->RunUntil([&] { return sent() == kFew; })) << "to the one on another host";
  EXPECT_FALSE(cluster->RunUntil([&] { return sent() > kFew; }, std::chrono::seconds(5)));
  SubmitAll(*cluster, Range(2), kUpdate);
  EXPECT_TRUE(cluster->RunUntil([&] { return sent() == (1 + 2) * kFew; }));
}

TEST(ProbeTest, WarmingDelaysNoOperationAndEndsWithTheNewView) {
  const auto cluster = FormedFarWithProbes(2, kMany);
  const std::uint32_t newcomer = cluster->AddNode(2);
  const auto sent = [&] { return cluster->IdOf(newcomer).value != 0 ? ProbeBytes(*cluster, newcomer) : 0; };
  ASSERT_TRUE(cluster->RunUntil([&] { return sent() > 0; }));
  for (int i = 0; i < 5 && !cluster->Joined(newcomer); ++i) {
    SubmitAll(*cluster, Range(2), kUpdate);
    ASSERT_TRUE(Finish(*cluster, Range(2)));
    (void)cluster->RunUntil([&] { return cluster->Joined(newcomer); }, std::chrono::milliseconds(100));
  }
  ASSERT_TRUE(cluster->Joined(newcomer));
  const std::uint64_t before = sent();
  EXPECT_EQ(before, flow::Warmer::kBytesMax) << "to its successor; the other path waits";
  for (const std::uint32_t node : {0U, newcomer}) cluster->Submit(node, SumF32(kLarge));
  EXPECT_FALSE(cluster->RunUntil([&] { return sent() > before; }, 2 * flow::Warmer::kTimeMax));
  cluster->Submit(1, SumF32(kLarge));
  EXPECT_TRUE(Finish(*cluster, Range(3)));
  CheckAgreement(*cluster, Range(3));
}

// ---------------------------------------------------------------------------------------------- plans by rates

// Returns the number of steps from one node to the other around the ring.
std::ptrdiff_t StepsAround(const Cluster& cluster, std::uint32_t from, std::uint32_t to) {
  const agreement::PeerStatus status = cluster.StatusOf(from);
  const auto place = [&](PeerId peer) {
    return std::ranges::find_if(status.ring,
                                [&](std::uint32_t rank) { return PeerId(status.members[rank].peer_id()) == peer; });
  };
  const auto size = static_cast<std::ptrdiff_t>(status.ring.size());
  return (place(cluster.IdOf(to)) - place(cluster.IdOf(from)) + size) % size;
}

TEST(ProbeTest, ABetterPlanForTheSameMembersIsAdoptedLikeANewcomersView) {
  const auto cluster = Formed(4);
  const Epoch first = cluster->StatusOf(0).epoch;
  for (const std::uint32_t from : Range(4)) {
    for (const std::uint32_t to : Range(4)) {
      if (from != to) cluster->SayRate(from, to, from + to == 1 ? 5'000'000 : 50'000'000);
    }
  }
  EXPECT_FALSE(cluster->RunUntil([&] { return cluster->StatusOf(0).epoch != first; }, std::chrono::seconds(3)))
      << "nothing changes by itself";
  SubmitAll(*cluster, Range(4), kUpdate);
  EXPECT_TRUE(Finish(*cluster, Range(4)));
  EXPECT_GT(cluster->StatusOf(0).epoch, first);
  EXPECT_EQ(StepsAround(*cluster, 0, 1), 2) << "opposite, so not next to each other";
  for (const std::uint32_t node : Range(4)) {
    EXPECT_EQ(cluster->StatusOf(node).shares.size(), 4u) << "the slow link is spared in direct, too";
  }
  Descriptor direct = SumF32(kLarge);
  direct.schedule = Algorithm::kDirect;
  SubmitAll(*cluster, Range(4), direct);
  EXPECT_TRUE(Finish(*cluster, Range(4)));
  CheckAgreement(*cluster, Range(4));
}

}  // namespace
}  // namespace ringway::sim
