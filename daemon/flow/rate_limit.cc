#include "daemon/flow/rate_limit.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace ringway::flow {
namespace {

constexpr double kLostShareMax = 0.01;
constexpr double kLostMuch = 0.02;
constexpr double kLossVaries = 2;  // windows are short
constexpr double kOwnLossMax = 0.06;
constexpr double kHelps = 0.5;
constexpr double kStillGrowing = 1.25;
constexpr Duration kOwnDelayMax = std::chrono::milliseconds(10);
constexpr double kOwnKept = 0.75;
constexpr int kWindowsToSettle = 2;
constexpr double kDecrease = 0.3;  // of one connection, as cubic's
constexpr double kFloor = 0.25;
constexpr double kRegrown = 0.5;  // of the best
constexpr double kNearBest = 0.8;
constexpr double kBestKept = 0.9;
constexpr double kNear = 0.05;
constexpr double kGentle = 0.005;
constexpr double kPassed = 0.02;  // less may still be queued
constexpr double kBesideQueue = 0.02;
constexpr double kKeptUp = 0.985;  // deliveries of a rate that grows lag behind
constexpr double kDrain = 0.99;
constexpr double kDrainMost = 0.95;
constexpr double kUnusedMax = 2;
constexpr double kStep = 0.03;
constexpr double kStepMax = 0.25;
constexpr double kFilled = 0.8;
constexpr double kFilledAssumed = 0.7;  // deliveries lag by a round trip
constexpr double kArrives = 0.9;        // of what was given a window before
constexpr int kFullWindows = 2;
constexpr double kLostShareAssumedMax = 0.1;
constexpr double kSmoothing = 0.25;
constexpr double kSmoothingOverdriven = 0.5;  // react fast to overload
constexpr Duration kQueueMin = std::chrono::milliseconds(4);
constexpr Duration kLongQueueMin = std::chrono::milliseconds(10);
constexpr double kDrained = 0.95;
constexpr double kUndrained = 0.94;  // a limit that was lowered for a queue only does not lower c
constexpr int kForeignWindows = 5;
constexpr int kForeignKept = 50;

}  // namespace

void Arrivals::Add(double given, double delivered) {
  given_ += kSmoothing * (given - given_);
  delivered_ += kSmoothing * (delivered - delivered_);
}

double Arrivals::share() const { return given_ > 0 ? delivered_ / given_ : 1; }

bool Arrivals::FallsShort() const { return share() < kKeptUp; }

void StandingQueue::OnWindow(Duration queueing, bool is_long) {
  shrinks_ = queueing + kQueueMin <= before_;
  before_ = queueing;
  without_ = is_long ? 0 : without_ + 1;
  if (!is_long) not_drained_ = 0;
  if (without_ >= kForeignKept) foreign_ = false;
}

void StandingQueue::OnNotDrained() {
  not_drained_ = shrinks_ ? 0 : not_drained_ + 1;
  if (not_drained_ >= kForeignWindows) foreign_ = true;
}

void BaselineLoss::Add(double sent, double lost_share, Duration queueing) {
  if (lost_share > kOwnLossMax) return;
  sent_ = kOwnKept * sent_ + sent;
  lost_ = kOwnKept * lost_ + sent * lost_share;
  delay_ = std::min(kOwnDelayMax, (delay_ + queueing) / 2);
}

double BaselineLoss::lost_share() const { return sent_ > 0 ? std::min(kLossVaries * lost_ / sent_, kOwnLossMax) : 0; }

bool IsLongQueue(Duration queueing, Duration round_trip) {
  return queueing > std::max<Duration>(kLongQueueMin, round_trip / 8);
}

RateLimit::RateLimit(std::uint32_t share)
    : less_(1 - kDecrease / share),
      gentle_(kGentle * share / kShareDefault),
      beside_queue_(kBesideQueue * share / kShareDefault),
      step_max_(std::min(kStepMax, kStepMax * share / kShareDefault)) {}

bool RateLimit::IsQueue(const Window& window) const {
  return window.queueing > own_.delay() + std::max<Duration>(kQueueMin, window.round_trip / 16);
}

bool RateLimit::IsLongQueue(const Window& window) const {
  return flow::IsLongQueue(window.queueing - own_.delay(), window.round_trip);
}

bool RateLimit::IsOverdriven(const Window& window) {
  const double own = own_.lost_share();
  const double lost_share = window.alone ? window.lost_share : 0;
  const double lost_twice = std::min(lost_share, std::exchange(lost_share_, lost_share));
  const bool grows = limit_ <= 0 && window.delivered > kStillGrowing * std::exchange(seen_, window.delivered);
  if (grows && window.lost_share < kOwnLossMax) return false;
  if (!known() && IsBoundByLanes(window)) return lost_twice > kOwnLossMax;
  return lost_twice > kLostMuch + own || (IsQueue(window) && window.lost_share > kLostShareMax + own);
}

bool RateLimit::IsBoundByLanes(const Window& window) {
  return window.few_lanes && !flow::IsLongQueue(window.standing, window.round_trip);
}

bool RateLimit::HasHelped(const Window& window) const {
  return window.lost_share > kLostShareMax && lowered_.lost_share - window.lost_share > kHelps * lowered_.share;
}

void RateLimit::Assume(double limit) {
  limit_ = carries_ = limit;
  assumed_ = true;
  grown_at_ = 0;
}

void RateLimit::Judge(const Window& window) {
  if (window.delivered <= 0) return;
  const bool settles = settling_ > 0;
  if (settles && --settling_ > 0) return;
  if (settles && !HasHelped(window)) own_.Add(window.delivered, window.lost_share, window.queueing);
  const bool queue = IsQueue(window);
  const bool overdriven = IsOverdriven(window);
  queue_.OnWindow(window.queueing, IsLongQueue(window));
  if (assumed_) return JudgeAssumed(window, overdriven);
  const bool held = limit_ > 0 && window.held;
  const bool urgent = overdriven && (held || series_ > 0);
  const double smoothed = carries_ + (urgent ? kSmoothingOverdriven : kSmoothing) * (window.delivered - carries_);
  arrivals_.Add(window.given, window.delivered);
  if (limit_ <= 0) {
    carries_ = std::max(window.delivered, smoothed);
  } else if (held && !queue && window.delivered > kFilled * limit_) {
    const bool only_drained = drained_ && limit_ >= kUndrained * carries_;
    carries_ = only_drained ? std::max(limit_, carries_) : limit_;
    const bool passes = window.lost_share <= kLostShareMax + own_.lost_share();
    if (passes && limit_ > (1 + kPassed) * overdriven_) overdriven_ = 0;
  } else {
    const bool is_full = arrivals_.FallsShort() || window.lost_share > kLostMuch + own_.lost_share();
    carries_ = (held && is_full) || urgent ? smoothed : std::max(carries_, smoothed);
  }
  if (overdriven) return Lower(std::max(carries_, window.delivered), window);
  if (held || window.delivered > kFilled * limit_) series_ = 0;
  best_ = std::max(best_, carries_);
  if (held && limit_ < kUnusedMax * std::max(carries_, window.delivered))
    Raise(window);
  else
    steps_ = 0;
}

void RateLimit::JudgeAssumed(const Window& window, bool overdriven) {
  carries_ = std::max(carries_, window.delivered);
  limit_ = std::max(limit_, window.delivered);
  const double given = std::min(window.given, std::exchange(given_before_, window.given));
  full_ = IsLongQueue(window) && window.delivered < kArrives * given ? full_ + 1 : 0;
  const bool most_arrives = window.delivered > kFilledAssumed * limit_ && window.lost_share < kLostShareAssumedMax;
  if (full_ >= kFullWindows) {
    full_ = 0;
    Lower(carries_, window);
    overdriven_ = carries_;
  } else if (window.held && full_ == 0 && most_arrives &&
             (IsBoundByLanes(window) || window.delivered > (1 + kNear) * grown_at_)) {
    grown_at_ = window.delivered;
    limit_ *= 1 + kStepMax;
  } else if (overdriven) {
    Lower(carries_, window);
  }
}

void RateLimit::Rest() {
  grown_at_ = 0;
  if (doubled_ && limit_ < best_) return;  // it passed before
  limit_ = std::min(limit_, std::max((1 + kNear) * carries_, kFloor * series_));
}

void RateLimit::Lower(double carries, const Window& window) {
  const double delivered = window.delivered;
  const double before = limit_ > 0 ? limit_ : carries;
  if (std::exchange(assumed_, false)) limit_ = 0;
  if (series_ <= 0) {
    series_ = delivered;
    best_ = std::exchange(doubled_, false) ? std::max(delivered, best_ / 4) : std::max(carries, kBestKept * best_);
  }
  drained_ = false;
  overdriven_ = limit_ > 0 ? carries : 0;  // fresh connections overdrive by far: the losses hide the bandwidth
  const double less = std::max(less_ * carries, kFloor * series_);
  limit_ = limit_ > 0 ? std::min(limit_, less) : less;
  arrivals_.Reset(limit_);
  settling_ = kWindowsToSettle;
  lowered_ = {.lost_share = window.lost_share, .share = 1 - limit_ / before};
  steps_ = 0;
}

void RateLimit::Drain() {
  const double drained = kDrained * carries_;
  if (limit_ <= drained) queue_.OnNotDrained();
  limit_ = std::max(std::min(limit_, drained), std::clamp(arrivals_.share(), kDrainMost, kDrain) * limit_);
  overdriven_ = carries_;
  drained_ = true;
  steps_ = 0;
}

void RateLimit::Raise(const Window& window) {
  const bool queue = IsQueue(window);
  if (limit_ < kRegrown * best_) {
    limit_ *= 2;
    doubled_ = true;
  } else if (IsLongQueue(window) && !queue_.foreign()) {
    Drain();
  } else if (queue && arrivals_.FallsShort()) {
    limit_ = std::max({carries_, less_ * std::min(overdriven_, limit_), kDrain * limit_});
    steps_ = 0;
  } else if (std::abs(limit_ - overdriven_) < kNear * overdriven_ && overdriven_ > kNearBest * best_) {
    limit_ *= 1 + (drained_ ? 2 : 1) * gentle_;  // a queue shows before it overflows
    steps_ = 0;
  } else if (queue) {
    limit_ *= 1 + beside_queue_;
  } else {
    limit_ *= 1 + std::min(step_max_, std::ldexp(kStep, steps_++));
  }
}

}  // namespace ringway::flow
