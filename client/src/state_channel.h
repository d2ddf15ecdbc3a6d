// Where a thread submits what is done beside the trainer's operations: the channel that no trainer has.
#pragma once

#include <ringway/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <thread>

namespace ringway::internal {

// In its scope, collectives of this thread are submitted on abi::kStateChannel, all as one peer: kRejoined once the
// session is another. So the channel needs no reports of a rejoin (memberships.h).
class OnStateChannel {
 public:
  // `stopped`: polled instead of JoinOptions::interrupted, which is for the trainer's threads; outlives it. Null: that.
  OnStateChannel(std::uint64_t as_peer, const std::function<bool()>* stopped)
      : as_peer_(as_peer), stopped_(stopped), before_(active_) {
    active_ = this;
  }
  ~OnStateChannel() { active_ = before_; }
  OnStateChannel(const OnStateChannel&) = delete;
  OnStateChannel& operator=(const OnStateChannel&) = delete;

  // Returns whether this thread is in such a scope.
  static bool IsActive() { return active_ != nullptr; }
  // REQUIRES: IsActive().
  static std::uint64_t as_peer() { return active_->as_peer_; }
  // For a thread beside the trainer's, whose operations may take all slots and memory: waits a moment for some of them
  // to end. Returns false at once on any other thread, and once it is stopped.
  static bool AwaitRoom() {
    if (active_ == nullptr || active_->stopped_ == nullptr || (*active_->stopped_)()) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return true;
  }
  // Returns what ends the waits of this thread.
  static const std::function<bool()>* InterruptedOr(const std::function<bool()>* otherwise) {
    return active_ != nullptr && active_->stopped_ != nullptr ? active_->stopped_ : otherwise;
  }

 private:
  static inline thread_local const OnStateChannel* active_ = nullptr;

  const std::uint64_t as_peer_;
  const std::function<bool()>* const stopped_;
  const OnStateChannel* const before_;
};

// Submits `operation` again while there is no room for it. REQUIRES: nothing comes after it on its channel.
template <typename Operation>
auto WhenThereIsRoom(const Operation& operation) {
  for (;;) {
    auto result = operation();
    if (result.status().code() != Code::kResourceExhausted || !OnStateChannel::AwaitRoom()) return result;
  }
}

}  // namespace ringway::internal
