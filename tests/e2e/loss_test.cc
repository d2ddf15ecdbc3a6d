// Deaths: of daemons, of the master. The survivors go on with the right bytes, or get the error they asked for.
#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <memory>
#include <thread>
#include <vector>

#include "tests/e2e/cluster.h"

namespace ringway::e2e {
namespace {

constexpr std::size_t kLargeCount = 2'000'000;  // 8 MB: beyond the eager window

// The rounds of a group that is about to lose one: some that all have submitted, so that data of everyone travels, and
// a last one that the victim has not, so that nothing before it can be the end.
class Struck {
 public:
  Struck(const Sessions& ranks, std::size_t victim) : ranks_(ranks), victim_(victim) {
    for (std::uint64_t i = 0; i < 4; ++i) {
      const std::size_t count = i % 2 == 0 ? kLargeCount : 1000;
      rounds_.push_back(std::make_unique<Round>(ranks, RoundOptions{.reduction = {}, .count = count, .number = i}));
    }
  }

  void Submit() {
    for (const auto& round : rounds_) {
      for (std::size_t i = 0; i < ranks_.size(); ++i) {
        if (i != victim_ || round != rounds_.back()) round->SubmitOn(i);
      }
    }
  }

  // The victim's works end with one of these; everybody else has right and equal bytes from all or from the survivors.
  void CheckSurvivors(const std::vector<Code>& victims_codes) {
    for (const auto& round : rounds_) {
      if (Work victims = std::move(round->work(victim_)); victims.valid()) {
        const Outcome outcome = victims.Wait(kPatience);
        // What was committed before the death may have been told.
        const bool expected =
            outcome.ok() || std::count(victims_codes.begin(), victims_codes.end(), outcome.error().code()) > 0;
        EXPECT_TRUE(expected) << NameOf(outcome.error().code()) << ": " << outcome.error().text();
      }
      const OpResult result = round->Check();
      EXPECT_GE(result.world_size, ranks_.size() - 1);
      if (round == rounds_.back()) {
        EXPECT_EQ(result.world_size, ranks_.size() - 1);
      }
    }
  }

 private:
  const Sessions& ranks_;
  std::size_t victim_;
  std::vector<std::unique_ptr<Round>> rounds_;
};

Sessions Without(Sessions ranks, std::size_t gone) {
  ranks.erase(ranks.begin() + static_cast<std::ptrdiff_t>(gone));
  return ranks;
}

// A later operation, to see that the group works.
void ExpectWorks(const Sessions& ranks) {
  Round round(ranks, {.reduction = {}, .count = 10'000, .number = 99});
  round.Submit();
  const OpResult result = round.Check();
  EXPECT_EQ(result.world_size, ranks.size());
  EXPECT_EQ(result.retries, 0u);
}

TEST(Loss, DaemonKilledInLargeOperationsLeavesRightSumsOfTheSurvivors) {
  Cluster cluster({.daemons = 4});
  Sessions ranks = cluster.JoinWorld(4);
  ASSERT_EQ(ranks.size(), 4u);
  Struck struck(ranks, 3);
  struck.Submit();
  cluster.daemon(3).Kill();
  struck.CheckSurvivors({Code::kDaemonLost});
  EXPECT_EQ(ranks[3]->AllReduceAsync(nullptr, nullptr, 0, DType::kF32, ReduceOp::kSum).error().code(),
            Code::kDaemonLost);
  EXPECT_EQ(ranks[3]->UpdateView().error().code(), Code::kDaemonLost);
  ExpectWorks(Without(std::move(ranks), 3));
}

// Stopped first: so it takes part, and certainly cannot finish.
TEST(Loss, DaemonKilledInTheMiddleIsInNoResult) {
  Cluster cluster({.daemons = 4});
  Sessions ranks = cluster.JoinWorld(4);
  ASSERT_EQ(ranks.size(), 4u);
  ExpectWorks(ranks);
  cluster.daemon(1).Signal(SIGSTOP);
  Round round(ranks, {.reduction = {}, .count = kLargeCount});
  round.Submit();
  cluster.daemon(1).Kill();
  EXPECT_EQ(round.Wait(1).error().code(), Code::kDaemonLost);
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

TEST(Loss, SilentDaemonIsEvictedAndToldWhenItWakes) {
  Cluster cluster({.daemons = 3, .detect_ms = 1000});
  Sessions ranks = cluster.JoinWorld(3);
  ASSERT_EQ(ranks.size(), 3u);
  ExpectWorks(ranks);
  cluster.daemon(2).Signal(SIGSTOP);
  Struck struck(ranks, 2);
  struck.Submit();
  Round later(std::vector{ranks[0].get(), ranks[1].get()}, {.reduction = {}, .number = 50});
  later.Submit();
  EXPECT_EQ(later.Check().world_size, 2u) << "decided while the victim sleeps";
  cluster.daemon(2).Signal(SIGCONT);
  struck.CheckSurvivors({Code::kEvicted});
  const Session& victim = *ranks[2];
  EXPECT_TRUE(Eventually([&] {
    return ranks[2]->AllReduceAsync(nullptr, nullptr, 0, DType::kF32, ReduceOp::kSum).error().code() == Code::kEvicted;
  })) << victim.peer_id();
  ExpectWorks(Without(std::move(ranks), 2));
}

TEST(Loss, DaemonThatIsTerminatedLeavesWithoutAnErrorForAnybody) {
  Cluster cluster({.daemons = 3});
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
  EXPECT_EQ(ranks[0]->AllReduceAsync(nullptr, nullptr, 0, DType::kF32, ReduceOp::kSum).error().code(),
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
  // What is submitted after everybody knows runs in the smaller group.
  const Sessions rest = Without(std::move(ranks), 1);
  ExpectWorks(rest);
}

TEST(Loss, DeathInOneGroupLeavesTheOtherUndisturbed) {
  Cluster cluster({.daemons = 4});
  Sessions struck_group = cluster.JoinWorld(4, "struck");
  const Sessions other_group = cluster.JoinWorld(3, "other");
  ASSERT_EQ(struck_group.size(), 4u);
  ASSERT_EQ(other_group.size(), 3u);
  std::atomic<bool> stop = false;
  std::atomic<int> rounds = 0;
  std::thread other([&] {
    for (std::uint64_t number = 0; !stop; ++number, ++rounds) {
      Round round(other_group, {.reduction = {}, .count = number % 2 == 0 ? 200'000u : 100u, .number = number});
      round.Submit();
      const OpResult result = round.Check();
      EXPECT_EQ(result.retries, 0u);
      EXPECT_EQ(result.world_size, 3u);
    }
  });
  EXPECT_TRUE(Eventually([&] { return rounds > 5; }));
  Struck struck(struck_group, 3);
  struck.Submit();
  cluster.daemon(3).Kill();
  struck.CheckSurvivors({Code::kDaemonLost});
  const int before = rounds;
  EXPECT_TRUE(Eventually([&] { return rounds > before + 5; }));
  stop = true;
  other.join();
  ExpectWorks(Without(std::move(struck_group), 3));
}

TEST(Loss, OperationsGoOnWithoutTheMaster) {
  Cluster cluster({.daemons = 3, .grace_ms = 500});  // nobody can be told of a leave: it takes its whole grace
  const Sessions ranks = cluster.JoinWorld(3);
  ASSERT_EQ(ranks.size(), 3u);
  std::vector<std::unique_ptr<Round>> running;
  for (std::uint64_t i = 0; i < 4; ++i) {
    running.push_back(std::make_unique<Round>(ranks, RoundOptions{.reduction = {}, .count = kLargeCount, .number = i}));
    running.back()->Submit();
  }
  cluster.master().Kill();
  for (const auto& round : running) EXPECT_EQ(round->Check().retries, 0u);
  EXPECT_TRUE(Eventually([&] { return !cluster.DaemonStatus(0)["daemon"].value("master_connected", true); }));
  for (int i = 0; i < 20; ++i) ExpectWorks(ranks);
  JoinOptions impatient = cluster.At(0, "another", 1);
  impatient.timeout = Milliseconds(50);
  const Expected<std::unique_ptr<Session>> join = Session::Join(impatient);
  EXPECT_EQ(join.error().code(), Code::kTimeout);
  EXPECT_NE(join.error().text().find("no connection to the master"), std::string::npos) << join.error().text();
}

}  // namespace
}  // namespace ringway::e2e
