// A point in steady time by which a call must return, or never.
#pragma once

#include <algorithm>
#include <chrono>
#include <climits>
#include <ringway/ringway.hpp>

namespace ringway::internal {

class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  // Timeouts beyond a century mean never, so that adding them cannot overflow; negative ones have already passed.
  explicit Deadline(Milliseconds timeout) : never_(timeout > std::chrono::hours(24 * 36500)) {
    if (!never_) time_ = Clock::now() + std::max(timeout, Milliseconds(0));
  }

  bool never() const { return never_; }
  Clock::time_point time() const { return time_; }

  // For poll(2): rounded up, so that a poll that expires has really reached the deadline.
  int PollMilliseconds() const {
    if (never_) return -1;
    const auto left = std::chrono::ceil<Milliseconds>(time_ - Clock::now()).count();
    return static_cast<int>(std::clamp<Milliseconds::rep>(left, 0, INT_MAX));
  }

 private:
  bool never_;
  Clock::time_point time_{};
};

}  // namespace ringway::internal
