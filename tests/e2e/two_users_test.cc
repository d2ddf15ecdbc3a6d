// Two users of a host who do not trust each other: one takes all of the daemon that it can get, and the other's every
// operation succeeds.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "tests/daemon/local/memfd.h"
#include "tests/e2e/cluster.h"
#include "tests/e2e/greed.h"
#include "tests/e2e/hostile_trainer.h"
#include "tests/e2e/other_user.h"

namespace ringway::e2e {
namespace {

// Every Debian has these two users: nobody, and daemon.
constexpr uid_t kGreedy = 65534;
constexpr uid_t kModest = 1;

class TwoUsersTest : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "only root can have processes of other users";
    cluster_ = std::make_unique<Cluster>(ClusterOptions{});
    ASSERT_EQ(::chmod(cluster_->directory().path().c_str(), 0755), 0);
  }
  // Joins, reduces and leaves, twice, as a user whom everybody else would starve.
  void WorkOn() {
    OtherUser modest(kModest, [this](const OtherUser::Child&) {
      for (int i = 0; i < 2; ++i) {
        const Sessions sessions = cluster_->JoinAll({cluster_->At(0, "modest", 2), cluster_->At(0, "modest", 2)});
        ASSERT_EQ(sessions.size(), 2U);
        for (std::uint64_t number = 0; number < 10; ++number) {
          Round round(sessions, {.reduction = {}, .count = 100'000, .number = number});
          round.Submit();
          EXPECT_EQ(round.Check().world_size, 2U);
        }
      }
    });
    EXPECT_TRUE(modest.Succeeded());
  }
  std::unique_ptr<Cluster> cluster_;
};

TEST_F(TwoUsersTest, WhoTakesAllItCanDisturbsNoOperationOfAnother) {
  // 4096 descriptors: 768 for trainers, 576 for one user. 64 MiB: 48 for regions, 36 for one user.
  cluster_->AddDaemonAt({.host = "127.0.0.1", .wrapper = {"/usr/bin/prlimit", "--nofile=4096:4096"}},
                        {"--socket-mode", "0666", "--memory-max", "64M"});
  OtherUser greedy(kGreedy, [this](const OtherUser::Child& child) {
    Greed greed(cluster_->socket(0));
    greed.TakeMemory();
    greed.TakeDescriptors();
    EXPECT_GE(greed.JoinAndDieUntilThrottled(), 64) << "the trainers of a host may come back at once";
    child.Ready();
    greed.JoinAndDieUntil([&] { return child.Stopped(); });
  });
  EXPECT_TRUE(greedy.WaitUntilReady());
  WorkOn();
  EXPECT_EQ(RunToEnd({RINGWAY_CTL, "--socket", cluster_->socket(0), "status"}).code, 0);
  greedy.Stop();
  EXPECT_TRUE(greedy.Succeeded());
}

// More than the share that it would get as a newcomer beside the greedy one.
TEST_F(TwoUsersTest, WhoWasThereFirstRegistersItsMemoryAnewBesideWhoTakesAllItCan) {
  cluster_->AddDaemon({"--socket-mode", "0666", "--memory-max", "64M"});
  constexpr std::uint64_t kBytes = 30 << 20;
  OtherUser modest(kModest, [this](const OtherUser::Child& child) {
    HostileTrainer trainer(cluster_->socket(0));
    trainer.BecomeMember("first");
    for (std::uint32_t slot = 0; slot < 10; ++slot) {
      trainer.Send(local::RegisterPacket(2, kBytes), {local::MakeMemfd(kBytes).get()});
      auto submit = local::SubmitPacket(slot);
      submit.result_region = 2;
      trainer.Send(submit);
      ASSERT_EQ(trainer.WaitForSlot(slot), Code::kOk) << "operation " << slot;
      if (slot == 0) {
        child.Ready();
        ASSERT_TRUE(Eventually([&] { return child.Stopped(); })) << "the greedy one is slow";
      }
      auto unregister = local::MakePacket<abi::UnregisterRegion>(abi::PacketType::kUnregisterRegion);
      unregister.region_id = 2;
      trainer.Send(unregister);
    }
  });
  EXPECT_TRUE(modest.WaitUntilReady());
  OtherUser greedy(kGreedy, [this](const OtherUser::Child& child) {
    Greed greed(cluster_->socket(0));
    greed.TakeMemoryInPieces();
    child.Ready();
    EXPECT_TRUE(Eventually([&] { return child.Stopped(); }));
  });
  EXPECT_TRUE(greedy.WaitUntilReady());
  modest.Stop();
  EXPECT_TRUE(modest.Succeeded());
  greedy.Stop();
  EXPECT_TRUE(greedy.Succeeded());
}

TEST_F(TwoUsersTest, WhoTakesAllSessionsItCanLeavesSomeToAnother) {
  rlimit own{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &own), 0);
  own.rlim_cur = own.rlim_max;
  constexpr rlim_t kNeeded = 16 * 1024;  // so that the daemon has no fewer descriptors than sessions
  if (own.rlim_max < kNeeded) GTEST_SKIP() << "needs " << kNeeded << " descriptors";
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &own), 0);
  cluster_->AddDaemon({"--socket-mode", "0666"});
  OtherUser greedy(kGreedy, [this](const OtherUser::Child& child) {
    Greed greed(cluster_->socket(0));
    greed.TakeSessions();
    child.Ready();
    EXPECT_TRUE(Eventually([&] { return child.Stopped(); }));
  });
  EXPECT_TRUE(greedy.WaitUntilReady());
  WorkOn();
  EXPECT_EQ(RunToEnd({RINGWAY_CTL, "--socket", cluster_->socket(0), "status"}).code, 0);
  greedy.Stop();
  EXPECT_TRUE(greedy.Succeeded());
}

TEST_F(TwoUsersTest, WhoMayNotJoinGetsNothingAndFillsNoLog) {
  cluster_->AddDaemon({"--socket-mode", "0666", "--allow-user", "*=daemon"});
  OtherUser greedy(kGreedy, [this](const OtherUser::Child& child) {
    const net::UniqueFd page = local::MakeMemfd(sizeof(abi::SessionPage));
    for (bool first = true; !child.Stopped() && !HasFailure(); first = false) {
      HostileTrainer refused(cluster_->socket(0));
      refused.Send(local::HelloPacket(), {page.get()});
      refused.Send(local::JoinPacket("group"));
      EXPECT_EQ(refused.WaitForEnd(), Code::kJoinRefused);
      if (first) child.Ready();
    }
  });
  EXPECT_TRUE(greedy.WaitUntilReady());
  WorkOn();
  EXPECT_TRUE(Eventually([&] {
    return cluster_->daemon(0).Logged("lines_left_out", "user") == std::to_string(kGreedy);
  })) << "its lines are not limited";
  greedy.Stop();
  EXPECT_TRUE(greedy.Succeeded());
}

}  // namespace
}  // namespace ringway::e2e
