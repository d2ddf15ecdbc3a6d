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
constexpr double kLess = 0.96;
constexpr double kFloor = 0.25;
constexpr double kRegrown = 0.5;  // of the best
constexpr double kNear = 0.05;
constexpr double kGentle = 0.005;
constexpr double kPassed = 0.02;  // less may still be queued
constexpr double kBesideQueue = 0.02;
constexpr double kKeptUp = 0.99;
constexpr double kDrain = 0.99;
constexpr double kUnusedMax = 2;
constexpr double kStep = 0.03;
constexpr double kStepMax = 0.25;
constexpr double kFilled = 0.8;
constexpr double kFilledAssumed = 0.7;  // deliveries lag by a round trip
constexpr double kLostShareAssumedMax = 0.1;
constexpr double kSmoothing = 0.25;
constexpr double kSmoothingOverdriven = 0.5;  // react fast to overload
constexpr Duration kQueueMin = std::chrono::milliseconds(4);

}  // namespace

void OwnTrouble::Add(double sent, double lost_share, Duration queueing) {
  if (lost_share > kOwnLossMax) return;
  sent_ = kOwnKept * sent_ + sent;
  lost_ = kOwnKept * lost_ + sent * lost_share;
  delay_ = std::min(kOwnDelayMax, (delay_ + queueing) / 2);
}

double OwnTrouble::lost_share() const { return sent_ > 0 ? std::min(kLossVaries * lost_ / sent_, kOwnLossMax) : 0; }

bool RateLimit::IsQueue(const Window& window) const {
  return window.queueing > own_.delay() + std::max<Duration>(kQueueMin, window.round_trip / 16);
}

bool RateLimit::IsOverdriven(const Window& window) {
  const double own = own_.lost_share();
  const bool lost_much = window.alone && window.lost_share > kLostMuch + own;
  const bool again = std::exchange(lost_much_, lost_much) && lost_much;
  const bool grows = limit_ <= 0 && window.delivered > kStillGrowing * std::exchange(seen_, window.delivered);
  if (grows && window.lost_share < kOwnLossMax) return false;
  return again || (IsQueue(window) && window.lost_share > kLostShareMax + own);
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
  if (assumed_) return JudgeAssumed(window, overdriven);
  const bool held = limit_ > 0 && window.held;
  const bool urgent = overdriven && (held || series_ > 0);
  const double smoothed = carries_ + (urgent ? kSmoothingOverdriven : kSmoothing) * (window.delivered - carries_);
  offered_ += kSmoothing * (limit_ - offered_);
  if (limit_ <= 0) {
    carries_ = std::max(window.delivered, smoothed);
  } else if (held && !queue && window.delivered > kFilled * limit_) {
    carries_ = offered_ = limit_;
    if (limit_ > (1 + kPassed) * overdriven_) overdriven_ = 0;
  } else {
    carries_ = held || urgent ? smoothed : std::max(carries_, smoothed);
  }
  if (overdriven) return Lower(std::max(carries_, window.delivered), window);
  if (held || window.delivered > kFilled * limit_) series_ = 0;
  best_ = std::max(best_, carries_);
  if (held && limit_ < kUnusedMax * std::max(carries_, window.delivered))
    Raise(queue);
  else
    steps_ = 0;
}

void RateLimit::JudgeAssumed(const Window& window, bool overdriven) {
  carries_ = std::max(carries_, window.delivered);
  limit_ = std::max(limit_, window.delivered);
  const bool most_arrives = window.delivered > kFilledAssumed * limit_ && window.lost_share < kLostShareAssumedMax;
  if (window.held && most_arrives && window.delivered > (1 + kNear) * grown_at_) {
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
    if (std::exchange(doubled_, false)) best_ = std::max(delivered, best_ / 4);
  }
  overdriven_ = limit_ > 0 ? carries : 0;  // fresh connections overdrive by far: the losses hide the bandwidth
  const double less = std::max(kLess * carries, kFloor * series_);
  limit_ = limit_ > 0 ? std::min(limit_, less) : less;
  offered_ = limit_;
  settling_ = kWindowsToSettle;
  lowered_ = {.lost_share = window.lost_share, .share = 1 - limit_ / before};
  steps_ = 0;
}

void RateLimit::Raise(bool queue) {
  if (limit_ < kRegrown * best_) {
    limit_ *= 2;
    doubled_ = true;
  } else if (queue && carries_ < kKeptUp * offered_) {
    limit_ = std::max({carries_, kLess * std::min(overdriven_, limit_), kDrain * limit_});
    steps_ = 0;
  } else if (std::abs(limit_ - overdriven_) < kNear * overdriven_) {
    limit_ *= 1 + kGentle;
    steps_ = 0;
  } else if (queue) {
    limit_ *= 1 + kBesideQueue;
  } else {
    limit_ *= 1 + std::min(kStepMax, std::ldexp(kStep, steps_++));
  }
}

}  // namespace ringway::flow
