// Trainers that die: what they submitted whole counts, what they did not is left out, and their daemon forgets them.
#include "tests/e2e/trainer.h"

#include <gtest/gtest.h>

#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include "tests/e2e/cluster.h"
#include "tests/sanitized.h"

namespace ringway::e2e {
namespace {

constexpr std::uint32_t kWorld = 3;

// Ranks 0 and 1 are sessions here at daemons 0 and 1; a process is the third, at daemon 2.
class TrainerDeath : public testing::Test {
 protected:
  void Start(const std::string& task) {
    idle_descriptors_ = cluster_.daemon(2).OpenDescriptors();
    idle_regions_ = cluster_.daemon(2).MappedRegions();
    victim_ = std::make_unique<Process>(
        cluster_.directory(), "trainer",
        std::vector<std::string>{RINGWAY_E2E_TRAINER, cluster_.socket(2), "job", "victim", "3", task});
    ranks_ = cluster_.JoinAll({cluster_.At(0, "job", kWorld), cluster_.At(1, "job", kWorld)});
    ASSERT_EQ(ranks_.size(), 2u);
    ASSERT_TRUE(Eventually([&] { return victim_->Out().starts_with("joined "); }));
    victim_id_ = std::stoull(victim_->Out().substr(7));
  }

  void AwaitSubmission() {
    ASSERT_TRUE(Eventually([&] { return victim_->Out().find("submitted") != std::string::npos; }));
  }

  OpResult RunRound(std::uint64_t number) {
    Round round(ranks_, {.reduction = {}, .count = kTrainerCount, .number = number});
    round.Submit();
    return round.Check();
  }

  // The group is two now, and daemon 2 is as it was before the trainer came, but for the connections of its lanes, kept
  // for the next one's.
  void ExpectForgotten() {
    const OpResult result = RoundsUntil(ranks_, [](const OpResult& last) { return last.world_size == 2; });
    EXPECT_EQ(result.contributors.size(), 2u);
    EXPECT_NE(cluster_.daemon(2).Logged("trainer_gone", "why"), "");
    const auto held = [&] { return cluster_.daemon(2).OpenDescriptors() - KeptAt(cluster_.socket(2)); };
    EXPECT_TRUE(Eventually([&] { return held() <= idle_descriptors_; }))
        << cluster_.daemon(2).OpenDescriptors() << " descriptors, " << idle_descriptors_ << " before";
    EXPECT_TRUE(Eventually([&] { return cluster_.daemon(2).MappedRegions() <= idle_regions_; }))
        << cluster_.daemon(2).MappedRegions() << " regions, " << idle_regions_ << " before";
    EXPECT_TRUE(Eventually([&] { return cluster_.DaemonStatus(2)["groups"].empty(); }));
  }

  bool HasVictim(const OpResult& result) const {
    return std::count(result.contributors.begin(), result.contributors.end(), victim_id_) > 0;
  }

  Cluster cluster_{{.daemons = kWorld}};
  std::unique_ptr<Process> victim_;
  std::uint64_t victim_id_ = 0;
  Sessions ranks_;
  std::size_t idle_descriptors_ = 0;
  std::size_t idle_regions_ = 0;
};

TEST_F(TrainerDeath, AfterSubmittingTheOthersGetItsShare) {
  Start("submit");
  AwaitSubmission();
  victim_->Kill();
  const OpResult result = RunRound(0);
  EXPECT_EQ(result.world_size, kWorld);
  EXPECT_TRUE(HasVictim(result));
  ExpectForgotten();
}

TEST_F(TrainerDeath, InTheMiddleOfItsCopyTheOthersFinishWithoutIt) {
  Start("stage");
  const OpResult result = RunRound(0);
  EXPECT_EQ(result.world_size, 2u);
  EXPECT_FALSE(HasVictim(result));
  EXPECT_EQ(victim_->Wait(), -SIGSEGV);
  ExpectForgotten();
}

TEST_F(TrainerDeath, BeforeSubmittingTheOthersFinishWithoutIt) {
  Start("idle");
  Round round(ranks_, {.reduction = {}, .count = kTrainerCount});
  round.Submit();
  victim_->Kill();
  EXPECT_EQ(round.Check().world_size, 2u);
  ExpectForgotten();
}

TEST_F(TrainerDeath, SomewhereInEndlessRoundsEveryResultIsRight) {
  Start("rounds");
  std::uint64_t number = 0;
  for (; number < 5; ++number) EXPECT_EQ(RunRound(number).world_size, kWorld);
  victim_->Signal(SIGKILL);
  std::uint32_t world = kWorld;
  for (; world == kWorld && !HasFailure(); ++number) {
    const OpResult result = RunRound(number);
    world = result.world_size;
    EXPECT_EQ(HasVictim(result), world == kWorld);
  }
  EXPECT_EQ(world, 2u);
  ExpectForgotten();
}

TEST_F(TrainerDeath, TheNextOneJoinsUnderTheSameName) {
  Start("idle");
  victim_->Kill();
  (void)RoundsUntil(ranks_, [](const OpResult& last) { return last.world_size == 2; });
  const Process next(cluster_.directory(), "next",
                     {RINGWAY_E2E_TRAINER, cluster_.socket(2), "job", "victim", "1", "idle"});
  (void)RoundsUntil(ranks_, [](const OpResult& last) { return last.update_waits; });
  EXPECT_EQ(UpdateAll(ranks_).world_size, 3u);
}

// Its group's operations end at their deadline, on all ranks alike; the other group of the same daemons notices
// nothing.
TEST(TrainerStop, CostsItsOwnGroupTheDeadlineAndOthersNothing) {
  Cluster cluster({.daemons = 3});
  Process victim(cluster.directory(), "trainer",
                 {RINGWAY_E2E_TRAINER, cluster.socket(2), "job", "victim", "3", "rounds"});
  std::vector<JoinOptions> options = {cluster.At(0, "job", kWorld), cluster.At(1, "job", kWorld)};
  for (JoinOptions& one : options) one.op_deadline = Milliseconds(kSanitized ? 20000 : 1500);
  const Sessions ranks = cluster.JoinAll(options);
  const Sessions others = cluster.JoinWorld(3, "other");
  ASSERT_EQ(ranks.size() + others.size(), 5u);
  ASSERT_TRUE(Eventually([&] { return victim.Out().find("submitted") != std::string::npos; }));
  victim.Freeze();
  Code code = Code::kOk;
  for (std::uint64_t number = 0; code == Code::kOk && number < 1000; ++number) {
    Round round(ranks, {.reduction = {}, .count = kTrainerCount, .number = number});
    round.Submit();
    Round other(others, {.reduction = {}, .count = kTrainerCount, .number = number});
    other.Submit();
    other.Check();
    code = round.Wait(0, kPatience).status().code();
    EXPECT_EQ(round.Wait(1, kPatience).status().code(), code);
    if (code == Code::kDeadline) {
      EXPECT_NE(round.CheckFailure(code).find("victim"), std::string::npos);
    }
  }
  EXPECT_EQ(code, Code::kDeadline);
  victim.Signal(SIGCONT);
  EXPECT_TRUE(Eventually([&] { return victim.Err().find("wait: deadline") != std::string::npos; })) << victim.Err();
}

TEST(SlowTrainer, IsNamedToThoseWhoWaitAndStays) {
  Cluster cluster({.daemons = 2, .detect_ms = ClusterOptions::kShortDetectMs});
  std::vector<JoinOptions> options = {cluster.At(0, "job", 2), cluster.At(1, "job", 2)};
  options[1].name = "slowpoke";
  const Sessions ranks = cluster.JoinAll(options);
  ASSERT_EQ(ranks.size(), 2u);
  Round round(ranks);
  round.SubmitOn(0);
  EXPECT_TRUE(Eventually([&] { return cluster.daemon(0).Logged("operation_waits", "for") == "slowpoke"; }));
  EXPECT_EQ(cluster.DaemonStatus(0)["groups"][0].value("waits", ""), "0:1 for slowpoke");
  round.SubmitOn(1);
  EXPECT_EQ(round.Check().world_size, 2u);
}

}  // namespace
}  // namespace ringway::e2e
