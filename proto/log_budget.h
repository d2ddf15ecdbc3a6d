// Rate limit of log lines that a stranger, or a user of the host, can cause: a token bucket of lines; the excess is
// counted. Pure.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "proto/clock.h"

namespace ringway {

class LogBudget {
 public:
  static constexpr std::int64_t kAtOnce = 20;
  static constexpr Duration kPeriod = std::chrono::seconds(1);  // one line a period

  explicit LogBudget(std::int64_t at_once = kAtOnce, Duration period = kPeriod)
      : at_once_(at_once), period_(period), lines_(at_once) {}

  // If a line may be written now, returns the number of lines that were left out since the last one.
  std::optional<std::uint64_t> Take(TimePoint now) {
    Refill(now);
    if (lines_ == 0) {
      ++left_out_;
      return std::nullopt;
    }
    --lines_;
    return std::exchange(left_out_, 0);
  }

  // Likewise for a line that only reports the number left out; nothing if that is 0.
  std::optional<std::uint64_t> TakeSummary(TimePoint now) {
    Refill(now);
    if (left_out_ == 0 || lines_ == 0) return std::nullopt;
    --lines_;
    return std::exchange(left_out_, 0);
  }

  // Returns whether it was in its initial state at the last call, so that it can be forgotten.
  bool IsFresh() const { return left_out_ == 0 && lines_ == at_once_; }

 private:
  void Refill(TimePoint now) {
    if (filled_ == TimePoint()) filled_ = now;
    const std::int64_t earned = (now - filled_) / period_;
    filled_ += earned * period_;
    lines_ = std::min(at_once_, lines_ + earned);
  }

  std::int64_t at_once_;
  Duration period_;
  std::int64_t lines_;
  std::uint64_t left_out_ = 0;
  TimePoint filled_{};
};

}  // namespace ringway
