// Time as a value. Pure code receives it as a parameter; only shells read the clock.
#pragma once

#include <chrono>
#include <cstdint>

namespace ringway {

// Monotonic time since an arbitrary start.
using Duration = std::chrono::microseconds;
using TimePoint = std::chrono::time_point<std::chrono::steady_clock, Duration>;

// For shells only.
inline TimePoint MonotonicNow() { return std::chrono::time_point_cast<Duration>(std::chrono::steady_clock::now()); }

}  // namespace ringway
