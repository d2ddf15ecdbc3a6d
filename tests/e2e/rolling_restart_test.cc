// All daemons restarted under trainers that never stop: each loses its daemon once and comes back by itself.
#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <memory>
#include <ringway/shared_state.hpp>
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

// A daemon ends by `signal` with exit status `status`; then comes the next.
void RestartAllDaemons(int signal, int status) {
  constexpr std::uint32_t kWorld = 3;
  Cluster cluster({.daemons = kWorld});
  std::vector<JoinOptions> options;
  for (std::size_t i = 0; i < kWorld; ++i) {
    options.push_back(cluster.At(i, "job", kWorld));
    options.back().name = "trainer" + std::to_string(i);
    options.back().reconnect = kPatience;
  }
  Sessions sessions = cluster.JoinAll(options);
  ASSERT_EQ(sessions.size(), kWorld);
  Trainers trainers;
  for (auto& session : sessions) trainers.push_back(std::make_unique<Trainer>(std::move(session)));
  for (std::size_t i = 0; i < kWorld; ++i) {
    SCOPED_TRACE(testing::Message() << "restart of daemon " << i);
    EXPECT_TRUE(AllWorkInAWorldOf(trainers, kWorld));
    cluster.daemon(i).Signal(signal);
    EXPECT_EQ(cluster.daemon(i).Wait(), status);
    cluster.RestartDaemon(i);
    EXPECT_TRUE(Eventually([&] { return trainers[i]->rejoins() == 1; }));
  }
  EXPECT_TRUE(AllWorkInAWorldOf(trainers, kWorld));
  for (const auto& trainer : trainers) trainer->AskToStop();
  for (const auto& trainer : trainers) trainer->Join();
  for (const auto& trainer : trainers) {
    EXPECT_TRUE(trainer->failure().ok()) << NameOf(trainer->failure().code()) << ": " << trainer->failure().text();
    EXPECT_EQ(trainer->rejoins(), 1);
    EXPECT_FALSE(trainer->state_has_moved());
    EXPECT_TRUE(trainer->State() == trainers[0]->State()) << "ranks hold different states";
  }
}

TEST(RollingRestart, StoppedDaemonsFailNoOperationOfTheOthers) { RestartAllDaemons(SIGTERM, 0); }

TEST(RollingRestart, KilledDaemonsFailNoOperationOfTheOthers) { RestartAllDaemons(SIGKILL, -SIGKILL); }

}  // namespace
}  // namespace ringway::e2e
