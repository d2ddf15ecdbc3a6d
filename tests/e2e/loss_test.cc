// Deaths: of daemons, of the master. The survivors go on with the right bytes, or get the error they asked for.
#include <gtest/gtest.h>

#include <csignal>
#include <memory>
#include <vector>

#include "tests/e2e/checks.h"

namespace ringway::e2e {
namespace {

TEST(Loss, DaemonKilledInLargeOperationsLeavesRightSumsOfTheSurvivors) {
  Cluster cluster({.daemons = 4});
  Sessions ranks = cluster.JoinWorld(4);
  ASSERT_EQ(ranks.size(), 4u);
  Struck struck(ranks, 3);
  struck.Submit();
  cluster.daemon(3).Kill();
  struck.CheckSurvivors();
  struck.CheckVictim({Code::kDaemonLost});
  EXPECT_EQ(ranks[3]->AllReduceAsync(nullptr, nullptr, 0, DType::kF32, ReduceOp::kSum).status().code(),
            Code::kDaemonLost);
  EXPECT_EQ(ranks[3]->UpdateView().status().code(), Code::kDaemonLost);
  ExpectWorks(Without(std::move(ranks), 3));
}

// Stopped first: so it takes part, and certainly cannot finish.
TEST(Loss, DaemonKilledInTheMiddleIsInNoResult) {
  Cluster cluster({.daemons = 4});
  Sessions ranks = cluster.JoinWorld(4);
  ASSERT_EQ(ranks.size(), 4u);
  ExpectWorks(ranks);
  cluster.daemon(1).Freeze();
  Round round(ranks, {.reduction = {}, .count = kLargeCount});
  const auto sent = [&] { return cluster.DaemonStatus(0)["groups"][0]["bytes_sent"].get<std::uint64_t>(); };
  const std::uint64_t before = sent();
  round.Submit();
  EXPECT_TRUE(Eventually([&] { return sent() > before; })) << "it has begun";
  cluster.daemon(1).Kill();
  EXPECT_EQ(round.Wait(1).status().code(), Code::kDaemonLost);
  round.work(1) = Work();
  const OpResult result = round.Check();
  EXPECT_EQ(result.world_size, 3u);
  EXPECT_GE(result.retries, 1u);
  ExpectWorks(Without(std::move(ranks), 1));
}

TEST(Loss, AllButOneDaemonKilledAtOnceLeavesOneThatGoesOn) {
  Cluster cluster({.daemons = 3});
  Sessions ranks = cluster.JoinWorld(3);
  ASSERT_EQ(ranks.size(), 3u);
  Round round(ranks, {.reduction = {}, .count = kLargeCount});
  round.SubmitOn(0);
  cluster.daemon(1).Kill();
  cluster.daemon(2).Kill();
  EXPECT_EQ(round.Check().world_size, 1u);
  ranks.resize(1);
  ExpectWorks(ranks);
}

TEST(Loss, OperationThatOutlastsTheGraceOfItsDaemonSaysThatThisStops) {
  Cluster cluster({.daemons = 2, .grace_ms = 100});
  Sessions ranks = cluster.JoinWorld(2);
  ASSERT_EQ(ranks.size(), 2u);
  const float input = 1;
  float sum = 0;
  auto work = ranks[0]->AllReduceAsync(&input, &sum, 1, DType::kF32, ReduceOp::kSum);  // the other is late
  ASSERT_TRUE(work.ok()) << work.status().text();
  cluster.daemon(0).Signal(SIGTERM);
  EXPECT_EQ(work->Wait().status().code(), Code::kShuttingDown) << "it did not leave by itself";
  EXPECT_EQ(cluster.daemon(0).Wait(), 0);
}

TEST(Loss, DaemonThatIsTerminatedLeavesWithoutAnErrorForAnybody) {
  Cluster cluster({.daemons = 3, .grace_ms = 60000});
  Sessions ranks = cluster.JoinWorld(3);
  ASSERT_EQ(ranks.size(), 3u);
  std::vector<std::unique_ptr<Round>> rounds;
  for (std::uint64_t i = 0; i < 6; ++i) {
    rounds.push_back(std::make_unique<Round>(
        ranks, RoundOptions{.reduction = {}, .count = i % 2 == 0 ? kLargeCount : 100, .number = i}));
    rounds.back()->Submit();
  }
  cluster.daemon(0).Signal(SIGTERM);
  for (const auto& round : rounds) EXPECT_EQ(round->Check().world_size, 3u) << "running operations are finished";
  EXPECT_EQ(cluster.daemon(0).Wait(), 0);
  EXPECT_EQ(ranks[0]->AllReduceAsync(nullptr, nullptr, 0, DType::kF32, ReduceOp::kSum).status().code(),
            Code::kShuttingDown);
  const Sessions rest = Without(std::move(ranks), 0);
  Round round(rest);
  round.Submit();
  EXPECT_EQ(round.Check().world_size, 2u);
  ExpectWorks(rest);
}

TEST(Loss, FewerThanTheMinimumIsAnErrorForAllThatRemain) {
  Cluster cluster({.daemons = 3});
  std::vector<JoinOptions> options;
  for (std::size_t i = 0; i < 3; ++i) {
    options.push_back(cluster.At(i, "job", 3));
    options.back().min_world = 3;
  }
  const Sessions ranks = cluster.JoinAll(options);
  ASSERT_EQ(ranks.size(), 3u);
  Round struck(ranks, {.reduction = {}, .count = kLargeCount});
  struck.SubmitOn(1);
  struck.SubmitOn(2);
  cluster.daemon(0).Kill();
  const std::string text = struck.CheckFailure(Code::kWorldTooSmall);
  EXPECT_NE(text.find("2 peers and needs 3"), std::string::npos) << text;
  Round later(std::vector{ranks[1].get(), ranks[2].get()}, {.reduction = {}, .number = 1});
  later.Submit();
  later.CheckFailure(Code::kWorldTooSmall);
}

TEST(Loss, GroupThatFailsOnLossTellsAllSurvivors) {
  Cluster cluster({.daemons = 3});
  std::vector<JoinOptions> options;
  for (std::size_t i = 0; i < 3; ++i) {
    options.push_back(cluster.At(i, "job", 3));
    options.back().fail_on_peer_loss = true;
  }
  Sessions ranks = cluster.JoinAll(options);
  ASSERT_EQ(ranks.size(), 3u);
  ExpectWorks(ranks);
  Round struck(ranks, {.reduction = {}, .count = kLargeCount});
  struck.SubmitOn(0);
  struck.SubmitOn(2);
  cluster.daemon(1).Kill();
  struck.CheckFailure(Code::kPeerLost);
  // Operations that are submitted after everybody knows run in the smaller group.
  const Sessions rest = Without(std::move(ranks), 1);
  ExpectWorks(rest);
}

TEST(Loss, TrainerThatHangsIsEvicted) {
  Cluster cluster({.daemons = 3});
  std::vector<JoinOptions> options;
  for (std::size_t i = 0; i < 3; ++i) {
    options.push_back(cluster.At(i, "job", 3));
    options.back().evict_hung_after = std::chrono::seconds(1);
    options.back().rejoin_when_evicted = false;
  }
  Sessions ranks = cluster.JoinAll(options);
  ASSERT_EQ(ranks.size(), 3u);
  ExpectWorks(ranks);
  Round round(std::vector{ranks[0].get(), ranks[2].get()}, {.reduction = {}, .number = 7});
  round.Submit();
  EXPECT_EQ(round.Check().world_size, 2u);
  const auto reported = ranks[1]->AllReduce(nullptr, nullptr, 0, DType::kF32, ReduceOp::kSum).status();
  EXPECT_EQ(reported.code(), Code::kEvicted) << reported.text();
  EXPECT_NE(reported.text().find("submitted nothing"), std::string::npos) << reported.text();
}

TEST(Loss, OperationsGoOnWithoutTheMaster) {
  Cluster cluster({.daemons = 3, .grace_ms = 500});  // no master acknowledges a leave: it takes its whole grace
  const Sessions ranks = cluster.JoinWorld(3);
  ASSERT_EQ(ranks.size(), 3u);
  std::vector<std::unique_ptr<Round>> running;
  for (std::uint64_t i = 0; i < 4; ++i) {
    running.push_back(std::make_unique<Round>(ranks, RoundOptions{.reduction = {}, .count = kLargeCount, .number = i}));
    running.back()->Submit();
  }
  cluster.master().Kill();
  for (const auto& round : running) EXPECT_EQ(round->Check().retries, 0u);
  EXPECT_TRUE(
      Eventually([&] { return !cluster.DaemonStatus(0).value("/daemon/master_connected"_json_pointer, true); }));
  for (int i = 0; i < 20; ++i) ExpectWorks(ranks);
  JoinOptions impatient = cluster.At(0, "another", 1);
  impatient.timeout = Milliseconds(50);
  ExpectJoinFails(impatient, Code::kMasterUnreachable, "no connection to the master");
}

}  // namespace
}  // namespace ringway::e2e
