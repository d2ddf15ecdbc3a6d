// A trainer with a large shared state, in the test's process.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <ringway/shared_state.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/e2e/cluster.h"

namespace ringway::e2e {

inline constexpr std::size_t kLargeBytes = std::size_t{128} << 20;  // eight pieces

// A state of one large tensor and the number of steps. Its step adds one to the number and, if it `changes`, to a word
// of each page.
class Pupil {
 public:
  struct Options {
    bool changes = false;
    std::uint64_t seed = 0;  // of what is in the tensor at first
    bool is_dense = false;   // all words of it, not one of each page
  };

  explicit Pupil(const Options& options)
      : changes_(options.changes),
        words_(kLargeBytes / sizeof(std::uint64_t)),
        state_(std::move(
            SharedState::Make({{"words", words_.data(), kLargeBytes}, {"steps", &steps_, sizeof(steps_)}}).value())) {
    for (std::size_t i = 0; i < words_.size(); i += options.is_dense ? 1 : kStride) words_[i] = options.seed * (i + 1);
  }

  // From any thread, once; what it waits for is in texts().
  Status Join(JoinOptions options) {
    options.on_waiting = [this](const Status& why) {
      if (why.text().starts_with("takes the state")) may_take_.wait(false);
      const std::lock_guard<std::mutex> lock(mutex_);
      texts_ += why.text() + "\n";
    };
    options.interrupted = [this] { return stopped_.load(); };
    auto joined = state_.Join(options);
    if (joined.ok()) session_ = std::move(joined.value());
    return joined.status();
  }
  void Stop() { stopped_ = true; }
  // Makes it wait before it takes the state, until Continue.
  void Pause() { may_take_ = false; }
  void Continue() {
    may_take_ = true;
    may_take_.notify_all();
  }

  // Returns whether newcomers were admitted.
  bool Step() {
    float one = 1;
    const auto sum = session_->AllReduce(&one, &one, 1, DType::kF32, ReduceOp::kSum);
    EXPECT_TRUE(sum.ok()) << sum.status().text();
    if (!sum.ok()) return false;
    ++steps_;
    for (std::size_t i = 0; changes_ && i < words_.size(); i += kStride) ++words_[i];
    const auto admitted = state_.Advance(*session_, sum->update_waits);
    EXPECT_TRUE(admitted.ok()) << admitted.status().text();
    return admitted.ok() && admitted.value();
  }

  bool HasSameStateAs(const Pupil& other) const {
    return words_ == other.words_ && steps_ == other.steps_ && state_.revision() == other.state_.revision();
  }
  std::uint64_t steps() const { return steps_; }
  const std::vector<std::uint64_t>& words() const { return words_; }
  Session& session() const { return *session_; }
  std::string texts() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return texts_;
  }
  bool Waits(const std::string& text) const { return texts().find(text) != std::string::npos; }

 private:
  static constexpr std::size_t kStride = 512;

  const bool changes_;
  std::vector<std::uint64_t> words_;
  std::uint64_t steps_ = 0;
  std::atomic<bool> stopped_ = false;
  std::atomic<bool> may_take_ = true;
  mutable std::mutex mutex_;
  std::string texts_;
  SharedState state_;
  std::unique_ptr<Session> session_;
};

}  // namespace ringway::e2e
