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
constexpr double kSteady = 1.1;
constexpr double kOverdriven = 0.03;  // of what arrives, sent again
constexpr Duration kInterrupted = std::chrono::seconds(5);
constexpr Duration kForgotten = std::chrono::minutes(1);
constexpr int kSettlingWindows = 2;
constexpr std::size_t kMost = kLanesMax - SmallLanes(kLanesMax);

}  // namespace

void LaneScaler::Add(const Sample& sample, TimePoint now) {
  if (std::exchange(paced_, sample.paced) != sample.paced && trial_from_ != 0) used_ = std::exchange(trial_from_, 0);
  if (!sample.backlogged || (start_ && sample.delivered_bytes < then_.delivered_bytes)) return start_.reset();
  if (const auto before = std::exchange(backlogged_, now)) OnRest(now - *before);
  if (!start_) {
    start_ = now;
    then_ = sample;
    return;
  }
  const Duration lasted = now - *start_;
  if (lasted < std::max(kVerdictWindowMin, 5 * sample.round_trip)) return;
  start_ = now;
  const Sample then = std::exchange(then_, sample);
  const auto delivered = static_cast<double>(sample.delivered_bytes - then.delivered_bytes);
  const double resent = static_cast<double>(sample.resent_bytes) - static_cast<double>(then.resent_bytes);
  Judge(delivered / std::chrono::duration<double>(lasted).count(), resent > kOverdriven * delivered, sample, now);
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
    before_ = 0;
  }
}

void LaneScaler::Judge(double rate, bool overdriven, const Sample& sample, TimePoint now) {
  if (trial_from_ != 0) {
    if (settling_-- > 0) return;
    const bool fewer = used_ < trial_from_;
    each_counts_ = !fewer && rate > kGainMuch * before_;
    const bool keep = fewer ? kGain * rate > before_ : rate > kGain * before_;
    fewer_are_slower_ = fewer && !keep;
    if (!keep) used_ = trial_from_;
    pause_ = keep ? Duration() : std::clamp(2 * pause_, kPauseMin, kPauseMax);
    trial_from_ = 0;
    next_trial_ = now + pause_;
    before_ = rate;
    return;
  }
  const double before = std::exchange(before_, rate);
  const bool steady = before > 0 && rate < kSteady * before && before < kSteady * rate;
  if (!steady || now < next_trial_) return;
  const std::size_t fewer = std::max(paced_ ? kPaced : kFirst, used() * 2 / 3);
  const std::size_t more = std::min(kMost, each_counts_ ? 2 * used() : used() + used() / 2);
  if (overdriven && fewer < used() && !std::exchange(fewer_are_slower_, false)) {
    Try(fewer, sample.lanes);
  } else if (more > used() && (paced_ || !IsLongQueue(sample.queueing, sample.round_trip))) {
    Try(more, sample.lanes);
  }
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
