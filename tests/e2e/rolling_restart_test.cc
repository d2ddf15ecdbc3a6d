// All daemons restarted under trainers that never stop: each loses its daemon and comes back by itself; also with
// programs of another release.
#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <memory>
#include <optional>
#include <ringway/shared_state.hpp>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/e2e/cluster.h"

namespace ringway::e2e {
namespace {

constexpr std::size_t kCount = 300'000;

// Its state is a function of all sums so far: ranks of which one has missed a sum, or taken one twice, end differently.
// Runs on a thread of its own from construction to Stop.
class Trainer {
 public:
  explicit Trainer(std::unique_ptr<Session> session)
      : session_(std::move(session)),
        state_(std::move(*session_->Allocate(kCount * sizeof(std::uint32_t)))),
        input_(std::move(*session_->Allocate(kCount * sizeof(std::uint32_t)))),
        sum_(std::move(*session_->Allocate(kCount * sizeof(std::uint32_t)))),
        state_address_(state_.data()),
        shared_(std::move(*SharedState::Make({{"state", state_.data(), kCount * sizeof(std::uint32_t)}}))),
        thread_([this] { Run(); }) {}
  ~Trainer() { Join(); }
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  // All stop after the same step, once all were asked.
  void AskToStop() { asked_to_stop_ = true; }
  void Join() {
    if (thread_.joinable()) thread_.join();
  }

  std::uint64_t steps() const { return steps_; }
  std::uint32_t world() const { return world_; }
  int rejoins() const { return rejoins_; }
  // After Join.
  const Status& failure() const { return failure_; }
  bool state_has_moved() const { return state_.data() != state_address_; }
  std::vector<std::uint32_t> State() const { return {Words(state_), Words(state_) + kCount}; }

 private:
  static std::uint32_t* Words(const Buffer& buffer) { return buffer.as<std::uint32_t>(); }

  void Run() {
    failure_ = Train();
    while (failure_.code() == Code::kRejoined) {
      ++rejoins_;
      failure_ = Train();
    }
  }

  Status Train() {
    Status error = shared_.Sync(*session_).status();
    while (error.ok() && !stops_) {
      error = Step();
      if (error.ok() && !stops_) error = shared_.Advance(*session_, update_waits_).status();
    }
    return error;
  }

  Status Step() {
    for (std::size_t i = 0; i < kCount; ++i) Words(input_)[i] = Words(state_)[i] + static_cast<std::uint32_t>(i);
    auto reduce = Submit(input_, sum_);
    if (!reduce.ok()) return reduce.status();
    std::uint8_t stops = asked_to_stop_ ? 1 : 0;
    auto agreement = session_->AllReduceAsync(&stops, &stops, 1, DType::kU8, ReduceOp::kMin);
    if (!agreement.ok()) return agreement.status();
    if (auto reduced = reduce->Wait(kPatience); !reduced.ok()) return reduced.status();
    auto agreed = agreement->Wait(kPatience);
    if (!agreed.ok()) return agreed.status();
    for (std::size_t i = 0; i < kCount; ++i) Words(state_)[i] = Words(state_)[i] * 1664525 + Words(sum_)[i] + 1;
    update_waits_ = agreed->update_waits;
    world_ = agreed->world_size;
    stops_ = stops == 1;
    ++steps_;
    return {};
  }

  Result<Work> Submit(const Buffer& input, const Buffer& output) {
    return session_->AllReduceAsync(input.data(), output.data(), kCount, DType::kU32, ReduceOp::kSum);
  }

  const std::unique_ptr<Session> session_;
  Buffer state_, input_, sum_;
  void* const state_address_;
  SharedState shared_;
  bool stops_ = false;
  bool update_waits_ = false;
  Status failure_;
  std::atomic<bool> asked_to_stop_ = false;
  std::atomic<std::uint64_t> steps_ = 0;
  std::atomic<std::uint32_t> world_ = 0;
  std::atomic<int> rejoins_ = 0;
  std::thread thread_;
};

using Trainers = std::vector<std::unique_ptr<Trainer>>;

bool AllWorkInAWorldOf(const Trainers& trainers, std::uint32_t world) {
  std::vector<std::uint64_t> before;
  for (const auto& trainer : trainers) before.push_back(trainer->steps());
  return Eventually([&] {
    for (std::size_t i = 0; i < trainers.size(); ++i) {
      if (trainers[i]->world() != world || trainers[i]->steps() < before[i] + 3) return false;
    }
    return true;
  });
}

class RollingRestart : public testing::Test {
 protected:
  static constexpr std::uint32_t kWorld = 3;

  void Start(const ClusterOptions& cluster) {
    cluster_.emplace(cluster);
    std::vector<JoinOptions> options;
    for (std::size_t i = 0; i < kWorld; ++i) {
      options.push_back(cluster_->At(i, "job", kWorld));
      options.back().name = "trainer" + std::to_string(i);
      options.back().reconnect = kPatience;
    }
    Sessions sessions = cluster_->JoinAll(options);
    ASSERT_EQ(sessions.size(), kWorld);
    for (auto& session : sessions) trainers_.push_back(std::make_unique<Trainer>(std::move(session)));
    EXPECT_TRUE(AllWorkInAWorldOf(trainers_, kWorld));
  }

  // A daemon ends by `signal` with exit status `status`; then comes the next.
  void RestartDaemons(int signal, int status) {
    for (std::size_t i = 0; i < kWorld; ++i) {
      SCOPED_TRACE(testing::Message() << "restart of daemon " << i);
      const int rejoins = trainers_[i]->rejoins();
      cluster_->daemon(i).Signal(signal);
      EXPECT_EQ(cluster_->daemon(i).Wait(), status);
      cluster_->RestartDaemon(i);
      EXPECT_TRUE(Eventually([&] { return trainers_[i]->rejoins() == rejoins + 1; }));
      EXPECT_TRUE(AllWorkInAWorldOf(trainers_, kWorld));
    }
  }

  void RestartMaster() {
    SCOPED_TRACE("restart of the master");
    cluster_->master().Signal(SIGTERM);
    EXPECT_EQ(cluster_->master().Wait(), 0);
    cluster_->RestartMaster();
    EXPECT_TRUE(AllWorkInAWorldOf(trainers_, kWorld));
    const auto all_are_back = [&] {
      for (std::size_t i = 0; i < kWorld; ++i) {
        if (!cluster_->MasterConnected(i)) return false;
      }
      return true;
    };
    EXPECT_TRUE(Eventually(all_are_back));
  }

  // Each trainer has rejoined so often and for no other reason, and no step was lost or taken twice.
  void ExpectAllEndAlike(int rejoins) {
    for (const auto& trainer : trainers_) trainer->AskToStop();
    for (const auto& trainer : trainers_) trainer->Join();
    for (const auto& trainer : trainers_) {
      EXPECT_TRUE(trainer->failure().ok()) << NameOf(trainer->failure().code()) << ": " << trainer->failure().text();
      EXPECT_EQ(trainer->rejoins(), rejoins);
      EXPECT_FALSE(trainer->state_has_moved());
      EXPECT_TRUE(trainer->State() == trainers_[0]->State()) << "ranks hold different states";
    }
  }

  std::optional<Cluster> cluster_;
  Trainers trainers_;
};

TEST_F(RollingRestart, StoppedDaemonsFailNoOperationOfTheOthers) {
  Start({.daemons = kWorld});
  RestartDaemons(SIGTERM, 0);
  ExpectAllEndAlike(1);
}

TEST_F(RollingRestart, KilledDaemonsFailNoOperationOfTheOthers) {
  Start({.daemons = kWorld});
  RestartDaemons(SIGKILL, -SIGKILL);
  ExpectAllEndAlike(1);
}

constexpr char kNoPrevious[] = "RINGWAY_TEST_PREVIOUS is not set: tests/run.sh --preset releases";

// One process at a time from the release before this one to this one, and back, under TLS. The trainers have this one's
// library.
class RollingUpgrade : public RollingRestart {
 protected:
  void SetUp() override {
    const std::optional<Release> previous = PreviousRelease();
    if (!previous) GTEST_SKIP() << kNoPrevious;
    previous_ = *previous;
    Start({.daemons = kWorld, .tls = true, .release = previous_});
  }
  // The versions that the master has heard of its daemons.
  std::set<std::string> Versions() const {
    std::set<std::string> versions;
    const auto status = cluster_->MasterStatus();
    for (const auto& daemon : status["daemons"]) {
      if (daemon["connected"] != true) continue;  // those that were replaced
      versions.insert(daemon["version"].is_string() ? daemon["version"].get<std::string>() : "old");
    }
    return versions;
  }

  Release previous_;
};

TEST_F(RollingUpgrade, MasterFirstAndBackDaemonsFirst) {
  cluster_->Use({});
  RestartMaster();
  EXPECT_EQ(Versions(), std::set<std::string>{"old"});
  RestartDaemons(SIGTERM, 0);
  EXPECT_FALSE(Versions().contains("old"));
  cluster_->Use(previous_);
  RestartDaemons(SIGTERM, 0);
  RestartMaster();
  ExpectAllEndAlike(2);
}

TEST_F(RollingUpgrade, DaemonsFirstAndBackMasterFirst) {
  cluster_->Use({});
  RestartDaemons(SIGTERM, 0);
  RestartMaster();
  cluster_->Use(previous_);
  RestartMaster();
  RestartDaemons(SIGTERM, 0);
  ExpectAllEndAlike(2);
}

// Trainers, and an operator, with the library and the tools of the release before beside this one's.
TEST(ReleasesTest, LibrariesOfBothSumOverDaemonsOfBoth) {
  const std::optional<Release> previous = PreviousRelease();
  if (!previous) GTEST_SKIP() << kNoPrevious;
  Cluster cluster({.daemons = 1});
  cluster.Use(*previous);
  cluster.AddDaemon();
  const auto bench = [&](const Release& release, std::size_t daemon, const std::string& label) {
    return std::make_unique<Process>(
        cluster.directory(), label,
        std::vector<std::string>{release.bench, "--socket", cluster.socket(daemon), "--group", "job", "--world", "4",
                                 "--bytes", "4K,1M", "--iters", "5", "--check"});
  };
  std::vector<std::unique_ptr<Process>> ranks;
  for (std::size_t i = 0; i < 4; ++i)
    ranks.push_back(bench(i < 2 ? Release{} : *previous, i % 2, "b" + std::to_string(i)));
  for (const auto& rank : ranks) EXPECT_EQ(rank->Wait(), 0) << rank->Out() << rank->Err();
  for (const Release& release : {Release{}, *previous}) {
    const Finished status = RunToEnd({release.ctl, "--master", cluster.master_address(), "status"});
    EXPECT_EQ(status.code, 0) << status.err;
    EXPECT_NE(status.out.find("d1"), std::string::npos) << status.out;
  }
}

}  // namespace
}  // namespace ringway::e2e
