#include "daemon/flow/token_bucket.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace ringway::flow {
namespace {

// Of credit that is kept: timers are late by this, and other work of the thread takes as long.
constexpr double kKeptSeconds = 0.004;
constexpr double kKeptMin = 256 << 10;
// A timer for less would cost more than it evens out.
constexpr Duration kWaitMin = std::chrono::milliseconds(1);
constexpr double kDebtSeconds = 0.1;
constexpr double kDebtMin = 512 << 10;
// Who is not back so long after the wait had nothing more to send.
constexpr Duration kLateMax = std::chrono::milliseconds(4);

}  // namespace

void TokenBucket::SetRate(double rate) {
  if (rate_ <= 0) credit_ = 0;
  rate_ = rate;
}

Duration TokenBucket::Wait(TimePoint now) {
  const Duration since = now - std::exchange(filled_, now);
  if (rate_ <= 0) return {};
  const double earned = rate_ * std::chrono::duration<double>(since).count();
  credit_ = std::min(credit_ + earned, std::max(kKeptMin, rate_ * kKeptSeconds));
  if (credit_ > 0) return {};
  return std::max(kWaitMin, Duration(static_cast<Duration::rep>(std::ceil(-credit_ / rate_ * 1e6))));
}

void TokenBucket::OnSent(double bytes) {
  credit_ = std::max(credit_ - bytes, -std::max(kDebtMin, rate_ * kDebtSeconds));
}

void WaitMeter::Add(Duration wait, TimePoint now) {
  const Duration since = now - std::exchange(told_at_, now);
  const Duration told_wait = std::exchange(told_wait_, wait);
  if (told_wait > Duration()) waited_ += std::min(since, told_wait + kLateMax);
}

// What it waits for still is what was left of it.
bool WaitMeter::TakeHeld(TimePoint now) {
  Add(std::max(Duration(), told_wait_ - (now - told_at_)), now);
  const Duration since = now - std::exchange(taken_, now);
  return 2 * std::exchange(waited_, Duration()) > since;
}

}  // namespace ringway::flow
