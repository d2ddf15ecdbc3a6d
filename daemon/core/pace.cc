#include "daemon/core/pace.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace ringway::core {
namespace {

// Of credit that is kept: timers are late by this, and other work of the thread takes as long.
constexpr double kKeptSeconds = 0.004;
constexpr double kKeptMin = 256 << 10;
// A timer for less would cost more than it evens out.
constexpr Duration kWaitMin = std::chrono::milliseconds(1);

}  // namespace

void Pace::SetRate(double rate) {
  if (rate_ <= 0) credit_ = 0;
  rate_ = rate;
}

Duration Pace::Wait(TimePoint now) {
  const Duration since = now - std::exchange(filled_, now);
  if (std::exchange(waits_, false)) waited_ += since;
  if (rate_ <= 0) return {};
  const double earned = rate_ * std::chrono::duration<double>(since).count();
  credit_ = std::min(credit_ + earned, std::max(kKeptMin, rate_ * kKeptSeconds));
  if (credit_ > 0) return {};
  waits_ = true;
  return std::max(kWaitMin, Duration(static_cast<Duration::rep>(std::ceil(-credit_ / rate_ * 1e6))));
}

bool Pace::TakeHeld(TimePoint now) {
  if (waits_) (void)Wait(now);
  const Duration since = now - std::exchange(told_, now);
  return 2 * std::exchange(waited_, Duration()) > since;
}

}  // namespace ringway::core
