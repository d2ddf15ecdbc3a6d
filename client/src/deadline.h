// The time by which a call must return, or never, and the callback that may interrupt it sooner.
#pragma once

#include <algorithm>
#include <chrono>
#include <climits>
#include <functional>
#include <optional>
#include <ringway/ringway.hpp>

namespace ringway::internal {

class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  // Timeouts beyond a century mean never, so that adding them cannot overflow; negative ones have already passed.
  // `interrupted` (may be null, or empty) is polled without a lock (JoinOptions::interrupted), and outlives this.
  explicit Deadline(Milliseconds timeout, const std::function<bool()>* interrupted = nullptr)
      : never_(timeout > std::chrono::hours(24 * 36500)),
        interrupted_(interrupted != nullptr && *interrupted ? interrupted : nullptr) {
    if (!never_) time_ = Clock::now() + std::max(timeout, Milliseconds(0));
  }

  bool never() const { return never_; }
  bool HasPassed() const { return !never_ && Clock::now() >= time_; }
  bool Interrupted() const {
    next_ask_ = Clock::now() + kSlice;
    return interrupted_ != nullptr && (*interrupted_)();
  }

  // When to check Interrupted and HasPassed again; nullopt: never.
  std::optional<Clock::time_point> NextLook() const {
    if (interrupted_ == nullptr) return never_ ? std::nullopt : std::optional(time_);
    return never_ ? next_ask_ : std::min(next_ask_, time_);
  }

  // Returns whether to check Interrupted now, for callers that are also woken for other reasons.
  bool AskIsDue() const { return interrupted_ != nullptr && Clock::now() >= next_ask_; }

  // Returns the earlier of this deadline and `time` from now.
  Deadline Within(Milliseconds time) const {
    Deadline sooner(time, interrupted_);
    if (!never_) sooner.time_ = std::min(sooner.time_, time_);
    sooner.next_ask_ = next_ask_;
    return sooner;
  }

  // For poll(2): rounded up, so that a poll that expires has reached the deadline.
  int PollMilliseconds() const { return PollUntil(never_ ? std::nullopt : std::optional(time_)); }
  static int PollUntil(const std::optional<Clock::time_point>& time) {
    if (!time) return -1;
    const auto left = std::chrono::ceil<Milliseconds>(*time - Clock::now()).count();
    return static_cast<int>(std::clamp<Milliseconds::rep>(left, 0, INT_MAX));
  }

 private:
  // Needed because another thread than the waiting one may have handled the signal.
  static constexpr Milliseconds kSlice{100};

  bool never_;
  const std::function<bool()>* interrupted_;
  Clock::time_point time_{};
  mutable Clock::time_point next_ask_ = Clock::now() + kSlice;  // one thread: a deadline belongs to one call
};

}  // namespace ringway::internal
