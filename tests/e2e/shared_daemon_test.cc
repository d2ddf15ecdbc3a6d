// Several trainers of one daemon: nothing goes over a socket between them, and each of them may die alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/e2e/cluster.h"
#include "tests/e2e/trainer.h"

namespace ringway::e2e {
namespace {

constexpr std::uint32_t kSharers = 3;

// Joins `count` sessions to daemon 0.
Sessions JoinDaemon0(const Cluster& cluster, std::size_t count, std::uint32_t world) {
  return cluster.JoinAll(std::vector<JoinOptions>(count, cluster.At(0, "job", world)));
}

TEST(SharedDaemon, TrainersExchangeEverythingWithoutAConnection) {
  Cluster cluster({.daemons = 1});
  const Sessions ranks = JoinDaemon0(cluster, kSharers, kSharers);
  ASSERT_EQ(ranks.size(), kSharers);
  std::uint64_t number = 0;
  for (const std::size_t count : {1UL, 1000UL, 100'000UL, 3'000'001UL}) {
    for (const OpKind kind : {OpKind::kAllReduce, OpKind::kAllGather, OpKind::kReduceScatter}) {
      Round round(ranks, {.reduction = {}, .count = count, .number = ++number, .collective = kind});
      round.Submit();
      const OpResult result = round.Check();
      EXPECT_EQ(result.retries, 0U);
      if (kind == OpKind::kAllReduce) {
        EXPECT_EQ(result.wire_bytes, 0U);
      }
    }
    for (const Codec codec : {Codec::kInt8, Codec::kBf16}) {
      Round round(ranks, {.reduction = {.codec = codec}, .count = count, .number = ++number});
      round.Submit();
      (void)round.Check();
    }
  }
  EXPECT_EQ(cluster.DaemonStatus(0).value("/daemon/descriptors/lanes"_json_pointer, 99), 0);
}

TEST(SharedDaemon, ManyOperationsOfSeveralChannelsAreInFlight) {
  Cluster cluster({.daemons = 1});
  const Sessions ranks = JoinDaemon0(cluster, 4, 4);
  ASSERT_EQ(ranks.size(), 4U);
  std::vector<std::unique_ptr<Round>> rounds;
  for (std::uint32_t i = 0; i < 40; ++i) {
    rounds.push_back(std::make_unique<Round>(
        ranks,
        RoundOptions{.reduction = {}, .count = i % 7 == 0 ? 500'000UL : 100UL * i, .number = i, .channel = i % 3}));
    rounds.back()->Submit();
  }
  for (const auto& round : rounds) EXPECT_EQ(round->Check().world_size, 4U);
}

// A process is the third of daemon 0's trainers.
class SharedDaemonDeath : public testing::Test {
 protected:
  void Start(const std::string& task) {
    victim_ = std::make_unique<Process>(
        cluster_.directory(), "trainer",
        std::vector<std::string>{RINGWAY_E2E_TRAINER, cluster_.socket(0), "job", "victim", "3", task});
    ranks_ = JoinDaemon0(cluster_, 2, kSharers);
    ASSERT_EQ(ranks_.size(), 2U);
    ASSERT_TRUE(Eventually([&] { return victim_->Out().starts_with("joined "); }));
    victim_id_ = std::stoull(victim_->Out().substr(7));
  }
  OpResult RunRound(std::uint64_t number) {
    Round round(ranks_, {.reduction = {}, .count = kTrainerCount, .number = number});
    round.Submit();
    return round.Check();
  }
  bool HasVictim(const OpResult& result) const {
    return std::count(result.contributors.begin(), result.contributors.end(), victim_id_) > 0;
  }

  Cluster cluster_{{.daemons = 1}};
  std::unique_ptr<Process> victim_;
  std::uint64_t victim_id_ = 0;
  Sessions ranks_;
};

TEST_F(SharedDaemonDeath, AfterSubmittingTheOthersGetItsShare) {
  Start("submit");
  ASSERT_TRUE(Eventually([&] { return victim_->Out().find("submitted") != std::string::npos; }));
  victim_->Kill();
  const OpResult result = RunRound(0);
  EXPECT_EQ(result.world_size, kSharers);
  EXPECT_TRUE(HasVictim(result));
  EXPECT_EQ(RoundsUntil(ranks_, [](const OpResult& last) { return last.world_size == 2; }).world_size, 2U);
}

TEST_F(SharedDaemonDeath, InTheMiddleOfItsCopyTheOthersFinishWithoutIt) {
  Start("stage");
  const OpResult result = RunRound(0);
  EXPECT_EQ(result.world_size, 2U);
  EXPECT_FALSE(HasVictim(result));
}

TEST_F(SharedDaemonDeath, SomewhereInEndlessRoundsEveryResultIsRight) {
  Start("rounds");
  std::uint64_t number = 0;
  for (; number < 5; ++number) EXPECT_EQ(RunRound(number).world_size, kSharers);
  victim_->Signal(SIGKILL);
  std::uint32_t world = kSharers;
  for (; world == kSharers && !HasFailure(); ++number) {
    const OpResult result = RunRound(number);
    world = result.world_size;
    EXPECT_EQ(HasVictim(result), world == kSharers);
  }
  EXPECT_EQ(world, 2U);
}

TEST(SharedDaemon, ItsEndIsOneLossOfAllItsPeers) {
  Cluster cluster({.daemons = 2});
  Sessions ranks = cluster.JoinAll(
      {cluster.At(0, "job", 4), cluster.At(0, "job", 4), cluster.At(0, "job", 4), cluster.At(1, "job", 4)});
  ASSERT_EQ(ranks.size(), 4U);
  Round first(ranks, {.reduction = {}, .count = kTrainerCount});
  first.Submit();
  EXPECT_EQ(first.Check().world_size, 4U);
  Round round(ranks, {.reduction = {}, .count = kTrainerCount, .number = 1});
  round.SubmitOn(3);
  round.SubmitOn(0);
  cluster.daemon(0).Kill();
  EXPECT_EQ(round.Wait(0).status().code(), Code::kDaemonLost);
  round.work(0) = Work();
  const OpResult result = round.Check();
  EXPECT_EQ(result.world_size, 1U);
  EXPECT_EQ(result.contributors, std::vector<std::uint64_t>{ranks[3]->peer_id()});
}

}  // namespace
}  // namespace ringway::e2e
