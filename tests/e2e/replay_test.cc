// Newcomers that replay: nobody waits for their state, and whoever dies meanwhile, all end with the same one.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <ringway/shared_state.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/e2e/cluster.h"

namespace ringway::e2e {
namespace {

// A thousand steps with a sanitizer, on a busy machine.
constexpr std::chrono::seconds kPatienceOfSteps = kSanitized ? 4 * kPatience : kPatience;

constexpr std::size_t kReplayedWords = std::size_t{1} << (kSanitized ? 18 : 20);  // 8 MiB, or 2
constexpr std::size_t kSummed = 4096;

// A trainer on a thread of its own. Each step adds the sum of the ranks' inputs to all of its state, which has numbers
// of 64 bits, so that no step is lost or repeated without a trace.
class Apprentice {
 public:
  struct Options {
    bool replay = true;
    std::uint64_t seed = 0;
    std::int64_t input = 1;  // of this rank
    bool errs = false;       // changes its state by something that is no result, while it replays
    std::size_t fills = 0;   // so many sums of one number before each step, more than there are slots
    std::function<void(const Status&)> on_waiting = {};
  };

  Apprentice(const Options& options, JoinOptions join)
      : options_(options),
        words_(kReplayedWords, options.seed),
        state_(std::move(
            SharedState::Make({{"words", words_.data(), kReplayedWords * 8}}, {.replay = options.replay}).value())),
        thread_([this, join = std::move(join)] { Run(join); }) {}
  ~Apprentice() {
    Stop();
    if (thread_.joinable()) thread_.join();
  }

  // Sync at the next step; then `synced` has its outcome.
  void AskSync() { asks_sync_ = true; }
  std::optional<Code> synced() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return synced_;
  }
  // All end after the same step, which the first that is stopped suggests.
  void Stop() { stops_ = true; }
  // As a trainer that dies.
  void Abort() { aborts_ = true; }
  // It goes no step further until it may.
  void Hold(bool holds) {
    holds_ = holds;
    holds_.notify_all();
  }
  void Join() { thread_.join(); }

  Status error() const { return error_; }
  const std::vector<std::uint64_t>& words() const { return words_; }
  std::uint64_t steps() const { return steps_.load(); }
  std::uint64_t replayed() const { return replayed_.load(); }
  bool has_joined() const { return has_joined_.load(); }
  std::uint64_t contributions() const { return contributions_.load(); }
  // Steps of which the result was without somebody's input.
  std::uint64_t without() const { return without_.load(); }
  // Submissions for which there was no slot.
  std::uint64_t refused() const { return refused_.load(); }
  // Boundaries without a waiting update at which the states were compared, and those of which IsAsked said so.
  std::uint64_t compared() const { return compared_.load(); }
  std::uint64_t foretold() const { return foretold_.load(); }

 private:
  void Run(const JoinOptions& options) {
    auto joined = state_.Join(options);
    if (!joined.ok()) {
      error_ = joined.status();
      return;
    }
    session_ = std::move(joined.value());
    has_joined_ = true;
    while (error_.ok() && !is_over_) Step();
    if (error_.ok()) (void)session_->Leave();
  }

  Status FillSlots() {
    std::vector<std::int64_t> ones(options_.fills, 1);
    std::deque<Work> works;
    for (std::int64_t& one : ones) {
      auto work = session_->AllReduceAsync(&one, &one, 1, DType::kI64, ReduceOp::kSum);
      while (work.status().code() == Code::kResourceExhausted && !works.empty()) {
        ++refused_;
        if (const auto done = works.front().Wait(); !done.ok()) return done.status();
        works.pop_front();
        work = session_->AllReduceAsync(&one, &one, 1, DType::kI64, ReduceOp::kSum);
      }
      if (!work.ok()) return work.status();
      works.push_back(std::move(work.value()));
    }
    for (Work& work : works) {
      if (const auto done = work.Wait(); !done.ok()) return done.status();
    }
    return {};
  }

  void Step() {
    holds_.wait(true);
    if (aborts_) session_->Abort();
    if (const Status filled = FillSlots(); !filled.ok()) {
      error_ = filled.code() == Code::kRejoined ? state_.Sync(*session_).status() : filled;
      return;
    }
    if (asks_sync_.exchange(false)) {
      const Code code = state_.Sync(*session_).status().code();
      const std::lock_guard<std::mutex> lock(mutex_);
      synced_ = code;
    }
    std::vector<std::int64_t> sum(kSummed, options_.input);
    sum[1] = stops_ ? 1 : 0;
    const bool is_replaying = state_.is_replaying();
    if (is_replaying) sum[0] = 1'000'000, sum[1] = 0;  // it is in no sum
    const auto result = session_->AllReduce(sum.data(), sum.data(), kSummed, DType::kI64, ReduceOp::kSum);
    if (result.status().code() == Code::kRejoined) {
      if (const auto synced = state_.Sync(*session_); !synced.ok()) error_ = synced.status();
      return;
    }
    if (!result.ok()) {
      error_ = result.status();
      return;
    }
    is_over_ = sum[1] > 0;
    for (std::uint64_t& word : words_) word += static_cast<std::uint64_t>(sum[0]);
    if (is_replaying && options_.errs) ++words_[kReplayedWords / 2];
    if (is_replaying) ++replayed_;
    if (!result->absent.empty()) ++without_;
    if (!result->is_late) ++contributions_;
    ++steps_;
    if (is_over_) return;
    const bool is_asked = state_.IsAsked(*session_);
    const auto advanced = state_.Advance(*session_, result->update_waits);
    if (advanced.ok() && advanced.value() && !result->update_waits) {
      ++compared_;
      if (is_asked) ++foretold_;
    }
    if (!advanced.ok() && advanced.status().code() == Code::kRejoined) {
      if (const auto synced = state_.Sync(*session_); !synced.ok()) error_ = synced.status();
    } else if (!advanced.ok()) {
      error_ = advanced.status();
    }
  }

  const Options options_;
  std::vector<std::uint64_t> words_;
  std::atomic<bool> stops_ = false, aborts_ = false, holds_ = false, has_joined_ = false;
  std::atomic<std::uint64_t> steps_ = 0, replayed_ = 0, contributions_ = 0, without_ = 0;
  std::atomic<std::uint64_t> refused_ = 0, compared_ = 0, foretold_ = 0;
  std::atomic<bool> asks_sync_ = false;
  std::mutex mutex_;
  std::optional<Code> synced_;
  bool is_over_ = false;
  Status error_;
  SharedState state_;
  std::unique_ptr<Session> session_;
  std::thread thread_;
};

class ReplayTest : public testing::Test {
 protected:
  void Begin(std::uint32_t count, const Apprentice::Options& options = {.seed = 7}) {
    for (std::uint32_t i = 0; i < count; ++i)
      trainers_.push_back(std::make_unique<Apprentice>(options, cluster_.At(i % 3, "job", count)));
    for (const auto& trainer : trainers_) Await([&] { return trainer->steps() > 0; });
  }
  Apprentice& Add(const Apprentice::Options& options) { return Add(options, cluster_.At(2, "job", 1)); }
  Apprentice& Add(const Apprentice::Options& options, const JoinOptions& join) {
    return *trainers_.emplace_back(std::make_unique<Apprentice>(options, join));
  }
  static void Await(const std::function<bool()>& condition) {
    const auto deadline = std::chrono::steady_clock::now() + kPatienceOfSteps;
    while (!condition()) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  // All end after the same step, with the same state.
  void End() {
    for (const auto& trainer : trainers_) trainer->Stop();
    for (const auto& trainer : trainers_) trainer->Join();
    for (const auto& trainer : trainers_) {
      EXPECT_TRUE(trainer->error().ok()) << trainer->error().text();
      EXPECT_TRUE(trainer->words() == trainers_[0]->words());
    }
  }

  Cluster cluster_{{.daemons = 3}};
  std::vector<std::unique_ptr<Apprentice>> trainers_;
};

TEST_F(ReplayTest, OthersTrainOnWhileTheNewcomerIsHeldAndItEndsWithTheirState) {
  Begin(2);
  Apprentice& newcomer = Add({.seed = 99});
  newcomer.Hold(true);
  Await([&] { return newcomer.has_joined(); });
  const std::uint64_t before = trainers_[0]->steps();
  Await([&] { return trainers_[0]->steps() > before + 10; });
  EXPECT_EQ(newcomer.steps(), 0U);
  EXPECT_GT(trainers_[0]->without(), 10U);
  newcomer.Hold(false);
  Await([&] { return newcomer.contributions() > 3; });
  EXPECT_GE(newcomer.replayed(), 10U);
  End();
}

TEST_F(ReplayTest, NewcomerTooFarBehindIsDroppedAndTakesTheStateAtItsNextAdmission) {
  Begin(2);
  JoinOptions rejoins = cluster_.At(2, "job", 1);
  rejoins.reconnect = kPatience;
  Apprentice& newcomer = Add({.seed = 99}, rejoins);
  newcomer.Hold(true);
  Await([&] { return newcomer.has_joined(); });
  const std::uint64_t dropped_by = trainers_[0]->steps() + 1100;  // AgreedInputs::kBehindMax, and some
  Await([&] { return trainers_[0]->steps() > dropped_by; });
  const std::uint64_t without = trainers_[0]->without();
  newcomer.Hold(false);
  Await([&] { return newcomer.contributions() > 3; });
  EXPECT_EQ(trainers_[0]->without(), without) << "it replays again";
  End();
}

TEST_F(ReplayTest, MembersThatHaveRejoinedTakePartInALaterReplay) {
  for (std::uint32_t i = 0; i < 2; ++i) {
    JoinOptions rejoins = cluster_.At(i, "job", 2);
    rejoins.reconnect = kPatience;
    Add({.seed = 7}, rejoins);
  }
  for (const auto& trainer : trainers_) Await([&] { return trainer->steps() > 0; });
  for (std::size_t i = 0; i < 2; ++i) {
    cluster_.daemon(i).Signal(SIGKILL);
    (void)cluster_.daemon(i).Wait();
  }
  for (std::size_t i = 0; i < 2; ++i) cluster_.RestartDaemon(i);
  for (const auto& trainer : trainers_) Await([&, steps = trainer->steps()] { return trainer->steps() > steps + 3; });
  Apprentice& newcomer = Add({.seed = 99});
  Await([&] { return newcomer.contributions() > 3; });
  EXPECT_GE(newcomer.replayed(), 1U);
  End();
}

TEST_F(ReplayTest, TrainersThatUseAllSlotsGiveTheirState) {
  Begin(2, {.seed = 7, .fills = 300});
  JoinOptions rejoins = cluster_.At(2, "job", 1);
  rejoins.reconnect = kPatience;  // on a busy machine it may be dropped
  Apprentice& newcomer = Add({.seed = 99, .fills = 300}, rejoins);
  Await([&] { return newcomer.contributions() > 3; });
  EXPECT_GT(trainers_[0]->without(), 0U);
  EXPECT_GT(trainers_[0]->refused(), 0U);
  End();
}

TEST_F(ReplayTest, SyncDuringAReplayIsRefusedAndTheBoundaryThatEndsItIsForetold) {
  Begin(2);
  Apprentice& newcomer = Add({.seed = 99});
  newcomer.Hold(true);
  Await([&] { return newcomer.has_joined() && trainers_[0]->without() > 3; });
  trainers_[0]->AskSync();
  Await([&] { return trainers_[0]->synced().has_value(); });
  EXPECT_EQ(trainers_[0]->synced(), Code::kInvalidArgument);
  newcomer.Hold(false);
  Await([&] { return newcomer.contributions() > 3; });
  End();
  for (const auto& trainer : trainers_) {
    EXPECT_GE(trainer->compared(), 1U);
    EXPECT_EQ(trainer->foretold(), trainer->compared());
  }
}

TEST_F(ReplayTest, TwoNewcomersReplay) {
  Begin(2);
  for (const std::uint64_t seed : {98, 99}) Add({.seed = seed});
  for (const std::size_t newcomer : {2, 3}) Await([&] { return trainers_[newcomer]->contributions() > 3; });
  End();
}

TEST_F(ReplayTest, NewcomerThatDiesWhileItReplaysIsGoneAndTheNextOneReplays) {
  Begin(2);
  Apprentice& dies = Add({.seed = 99});
  dies.Hold(true);
  Await([&] { return dies.has_joined() && trainers_[0]->without() > 3; });
  dies.Abort();
  dies.Hold(false);
  dies.Join();
  EXPECT_EQ(dies.error().code(), Code::kLeft) << dies.error().text();
  trainers_.pop_back();
  Apprentice& next = Add({.seed = 98});
  Await([&] { return next.contributions() > 3; });
  EXPECT_GE(next.replayed(), 1U);
  End();
}

TEST_F(ReplayTest, MemberThatDiesWhileANewcomerReplaysTakesNothingAlong) {
  Begin(3);
  Apprentice& newcomer = Add({.seed = 99});
  newcomer.Hold(true);
  Await([&] { return newcomer.has_joined() && trainers_[1]->without() > 3; });
  trainers_[0]->Abort();
  trainers_[0]->Join();
  trainers_.erase(trainers_.begin());
  newcomer.Hold(false);
  Await([&] { return newcomer.contributions() > 3; });
  End();
}

TEST_F(ReplayTest, NewcomerThatErrsIsFoundWhereItBeginsToContribute) {
  Begin(2);
  Apprentice& newcomer = Add({.seed = 99, .errs = true});
  newcomer.Hold(true);
  Await([&] { return newcomer.has_joined() && trainers_[0]->without() > 3; });
  newcomer.Hold(false);
  Await([&] { return newcomer.contributions() > 3; });
  EXPECT_GE(newcomer.replayed(), 1U);
  End();
}

TEST_F(ReplayTest, WhereOneRankDoesNotReplayTheStateIsSentAtTheAdmission) {
  Begin(2);
  Apprentice& newcomer = Add({.replay = false, .seed = 99});
  Await([&] { return newcomer.contributions() > 3; });
  EXPECT_EQ(trainers_[0]->without(), 0U);
  End();
}

}  // namespace
}  // namespace ringway::e2e
