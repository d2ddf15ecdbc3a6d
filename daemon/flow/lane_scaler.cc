#include "daemon/flow/lane_scaler.h"

#include <algorithm>
#include <utility>

#include "daemon/flow/path_model.h"
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

void LaneScaler::Add(const Traffic& tick, Duration round_trip, const Demand& demand, std::size_t up, TimePoint now) {
  const bool paced = demand.pace > 0;
  if (std::exchange(paced_, paced) != paced && trial_from_ != 0) used_ = std::exchange(trial_from_, 0);
  if (!demand.backlogged) return window_.Break();
  if (const auto before = std::exchange(backlogged_, now)) OnRest(now - *before);
  Traffic of_lanes = tick;
  of_lanes.held = demand.held;
  const auto full = window_.Extend(now, of_lanes, std::max(kVerdictWindowMin, 5 * round_trip));
  if (!full || full->held()) return;
  const double delivered = full->sum.delivered;
  Judge({.rate = full->PerSecond(delivered),
         .resent = delivered > 0 ? full->sum.resent / delivered : 0,
         .held = full->held_ticks > 0,
         .long_queue = IsLongQueue(tick.queueing, round_trip)},
        up, now);
}

void LaneScaler::OnRest(Duration rest) {
  if (rest >= kForgotten) {
    LaneScaler fresh;
    fresh.paced_ = paced_;
    fresh.backlogged_ = backlogged_;
    *this = fresh;
  } else if (rest >= kInterrupted && trial_from_ != 0) {
    used_ = std::exchange(trial_from_, 0);
    before_ = {};
  }
}

void LaneScaler::Judge(const Window& window, std::size_t up, TimePoint now) {
  if (trial_from_ != 0) {
    if (settling_-- <= 0) EndTrial(window, now);
    return;
  }
  const Window before = std::exchange(before_, window);
  const bool steady = before.rate > 0 && window.rate < kSteady * before.rate && before.rate < kSteady * window.rate;
  if (!steady || now < next_trial_) return;
  const std::size_t fewer = std::max(paced_ ? kPaced : kFirst, used() * 2 / 3);
  const std::size_t more = std::min(kMost, each_counts_ || window.resent > kLossy ? 2 * used() : used() + used() / 2);
  const bool may_be_more = more > used() && (paced_ || !window.long_queue);
  if (window.resent > kOverdriven && fewer < used() && (!losses_are_the_paths_ || !may_be_more)) {
    Try(fewer, up);
  } else if (may_be_more) {
    Try(more, up);
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
