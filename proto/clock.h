// Time as a value. Pure code receives it as a parameter; only shells read the clock.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>

namespace ringway {

// Monotonic time since an arbitrary start.
using Duration = std::chrono::microseconds;
using TimePoint = std::chrono::time_point<std::chrono::steady_clock, Duration>;

// Round trips of at least this are far.
inline constexpr Duration kFarRoundTrip = std::chrono::milliseconds(10);

// Returns the time as text, "1.2 s", rounded down. REQUIRES: time >= 0.
inline std::string SecondsText(Duration time) {
  const auto tenths = time / std::chrono::milliseconds(100);
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " s";
}

// Only shells call this; pure code gets the time as a parameter.
inline TimePoint MonotonicNow() { return std::chrono::time_point_cast<Duration>(std::chrono::steady_clock::now()); }

// A clock that advances by at most `gap_max` between two readings, so that a process that was stopped, or blocked on a
// slow disk, does not take its own pause for the silence of others.
class AttendedClock {
 public:
  explicit AttendedClock(Duration gap_max) : gap_max_(gap_max) {}

  // REQUIRES: `real` never goes back.
  TimePoint Now(TimePoint real) {
    attended_ += seen_ == TimePoint() ? real - TimePoint() : std::min(real - seen_, gap_max_);
    seen_ = real;
    return attended_;
  }

 private:
  const Duration gap_max_;
  TimePoint seen_{}, attended_{};
};

}  // namespace ringway
