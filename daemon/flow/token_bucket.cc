#include "daemon/flow/token_bucket.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace ringway::flow {
namespace {

// Credit that is kept while idle: timers and other work of the thread delay a sender by as much.
constexpr double kKeptSeconds = 0.004;
constexpr double kKeptMin = 256 << 10;
// A shorter timer would cost more than it smooths.
constexpr Duration kWaitMin = std::chrono::milliseconds(1);
constexpr double kDebtSeconds = 0.1;
constexpr double kDebtMin = 512 << 10;
// A sender that is not back so long after its wait had nothing more to send.
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

void TokenBucket::OnResent(double bytes) {
  credit_ = std::max(credit_ - bytes, std::min(credit_, -rate_ * kDebtSeconds));
}

void WaitMeter::Add(Duration wait, TimePoint now) {
  const Duration since = now - std::exchange(last_at_, now);
  const Duration last_wait = std::exchange(last_wait_, wait);
  if (last_wait > Duration()) waited_ += std::min(since, last_wait + kLateMax);
}

// Only the remainder of the current wait is left for the next period.
bool WaitMeter::TakeHeld(TimePoint now) {
  Add(std::max(Duration(), last_wait_ - (now - last_at_)), now);
  const Duration since = now - std::exchange(taken_, now);
  return 2 * std::exchange(waited_, Duration()) > since;
}

}  // namespace ringway::flow
