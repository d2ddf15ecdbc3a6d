// Where a thread submits what is done beside the trainer's operations: the channel that no trainer has.
#pragma once

#include <functional>

namespace ringway::internal {

// In its scope, collectives of this thread are submitted on abi::kStateChannel.
class OnStateChannel {
 public:
  // `stopped`: polled instead of JoinOptions::interrupted, which is for the trainer's threads; outlives it. Null: that.
  explicit OnStateChannel(const std::function<bool()>* stopped) : stopped_(stopped), before_(active_) {
    active_ = this;
  }
  ~OnStateChannel() { active_ = before_; }
  OnStateChannel(const OnStateChannel&) = delete;
  OnStateChannel& operator=(const OnStateChannel&) = delete;

  // Returns whether this thread is in such a scope.
  static bool IsActive() { return active_ != nullptr; }
  // Returns what ends the waits of this thread.
  static const std::function<bool()>* InterruptedOr(const std::function<bool()>* otherwise) {
    return active_ != nullptr && active_->stopped_ != nullptr ? active_->stopped_ : otherwise;
  }

 private:
  static inline thread_local const OnStateChannel* active_ = nullptr;

  const std::function<bool()>* const stopped_;
  const OnStateChannel* const before_;
};

}  // namespace ringway::internal
