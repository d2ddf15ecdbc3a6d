// Where a thread submits what is done beside the trainer's operations: the channel that no trainer has.
#pragma once

#include <cstdint>
#include <functional>

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

}  // namespace ringway::internal
