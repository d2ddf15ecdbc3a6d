#include "daemon/flow/lane_scaler.h"

#include <algorithm>
#include <utility>

#include "daemon/flow/rate_limit.h"
#include "proto/lane_roles.h"

namespace ringway::flow {
namespace {

constexpr Duration kVerdictWindowMin = std::chrono::milliseconds(500);
constexpr Duration kPauseMin = std::chrono::seconds(10);
constexpr Duration kPauseMax = std::chrono::minutes(10);
constexpr double kGain = 1.05;
constexpr double kGainMuch = 1.25;
constexpr double kSteady = 1.2;
constexpr double kLossy = 0.005;  // of what arrives, sent again
constexpr double kOverdriven = 0.03;
constexpr double kLostMore = 1.5;
constexpr Duration kInterrupted = std::chrono::seconds(5);
constexpr Duration kForgotten = std::chrono::minutes(1);
constexpr int kSettlingWindows = 2;
constexpr std::size_t kMost = kLanesMax - SmallLanes(kLanesMax);

}  // namespace

void LaneScaler::Add(const Sample& sample, TimePoint now) {
  if (std::exchange(paced_, sample.paced) != sample.paced && trial_from_ != 0) used_ = std::exchange(trial_from_, 0);
  if (!sample.backlogged || (start_ && sample.delivered_bytes < then_.delivered_bytes)) return start_.reset();
  if (const auto before = std::exchange(backlogged_, now)) OnRest(now - *before);
  if (!start_) return Begin(sample, now);
  ++ticks_;
  held_ticks_ += sample.held;
  const Duration lasted = now - *start_;
  if (lasted < std::max(kVerdictWindowMin, 5 * sample.round_trip)) return;
  const Sample then = then_;
  const int ticks = ticks_;
  const int held = held_ticks_;
  Begin(sample, now);
  if (2 * held > ticks) return;
  const auto delivered = static_cast<double>(sample.delivered_bytes - then.delivered_bytes);
  const double resent = static_cast<double>(sample.resent_bytes) - static_cast<double>(then.resent_bytes);
  Judge({.rate = delivered / std::chrono::duration<double>(lasted).count(),
         .resent = delivered > 0 ? resent / delivered : 0,
         .held = held > 0},
        sample, now);
}

void LaneScaler::Begin(const Sample& sample, TimePoint now) {
  start_ = now;
  then_ = sample;
  ticks_ = held_ticks_ = 0;
}

void LaneScaler::OnRest(Duration rest) {
  if (rest >= kForgotten) {
    const bool paced = paced_;
    const TimePoint backlogged = *backlogged_;
    *this = LaneScaler();
    paced_ = paced;
    backlogged_ = backlogged;
  } else if (rest >= kInterrupted && trial_from_ != 0) {
    used_ = std::exchange(trial_from_, 0);
    before_ = {};
  }
}

void LaneScaler::Judge(const Window& window, const Sample& sample, TimePoint now) {
  if (trial_from_ != 0) {
    if (settling_-- <= 0) EndTrial(window, now);
    return;
  }
  const Window before = std::exchange(before_, window);
  const bool steady = before.rate > 0 && window.rate < kSteady * before.rate && before.rate < kSteady * window.rate;
  if (!steady || now < next_trial_) return;
  const std::size_t fewer = std::max(paced_ ? kPaced : kFirst, used() * 2 / 3);
  const std::size_t more = std::min(kMost, each_counts_ || window.resent > kLossy ? 2 * used() : used() + used() / 2);
  const bool may_be_more = more > used() && (paced_ || !IsLongQueue(sample.queueing, sample.round_trip));
  if (window.resent > kOverdriven && fewer < used() && (!losses_are_the_paths_ || !may_be_more)) {
    Try(fewer, sample.lanes);
  } else if (may_be_more) {
    Try(more, sample.lanes);
  }
}

void LaneScaler::EndTrial(const Window& window, TimePoint now) {
  const bool fewer = used_ < trial_from_;
  const bool keep = fewer ? kGain * window.rate > before_.rate : window.rate > kGain * before_.rate;
  if (!fewer && !keep && window.held) return;  // it was the limit that kept them from more
  losses_are_the_paths_ = keep != fewer;
  if (!fewer) {
    each_counts_ = window.rate > kGainMuch * before_.rate;
    enough_ = used_ == kMost || (!each_counts_ && (keep || window.resent > kLostMore * before_.resent));
    pause_ = std::clamp(2 * pause_, kPauseMin, kPauseMax);
  }
  if (keep) pause_ = {};
  next_trial_ = fewer ? now : now + pause_;
  if (!keep) used_ = trial_from_;
  trial_from_ = 0;
  before_ = window;
}

void LaneScaler::Try(std::size_t lanes, std::size_t up) {
  trial_from_ = std::exchange(used_, lanes);
  most_used_ = std::max(most_used_, lanes);
  settling_ = kSettlingWindows + (lanes > up);
}

std::size_t LaneScaler::wanted(TimePoint now) const {
  return backlogged_ && now - *backlogged_ < kForgotten ? most_used_ : kFirst;
}

}  // namespace ringway::flow
