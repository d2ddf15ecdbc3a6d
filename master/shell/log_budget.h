// Rate limit of log lines about unauthenticated connections: a token bucket of lines; the excess is counted. Pure.
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

 private:
  void Refill(TimePoint now) {
    if (filled_ == TimePoint()) filled_ = now;
    const std::int64_t earned = (now - filled_) / kPeriod;
    filled_ += earned * kPeriod;
    lines_ = std::min(kAtOnce, lines_ + earned);
  }

  std::int64_t lines_ = kAtOnce;
  std::uint64_t left_out_ = 0;
  TimePoint filled_{};
};

}  // namespace ringway
