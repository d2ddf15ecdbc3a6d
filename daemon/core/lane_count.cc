#include "daemon/core/lane_count.h"

#include <algorithm>
#include <utility>

namespace ringway::core {
namespace {

constexpr Duration kWindowMin = std::chrono::milliseconds(500);
constexpr Duration kPauseMin = std::chrono::seconds(10);
constexpr Duration kPauseMax = std::chrono::minutes(10);
constexpr double kGain = 1.05;
constexpr double kSteady = 1.1;
constexpr int kSettlingWindows = 2;

}  // namespace

void LaneCount::Add(const Sample& sample, TimePoint now) {
  if (std::exchange(paced_, sample.paced) != sample.paced && trial_from_ != 0) used_ = std::exchange(trial_from_, 0);
  if (!sample.backlogged || sample.delivered_bytes < start_bytes_) {
    start_bytes_ = 0;
    return start_.reset();
  }
  if (!start_) {
    start_ = now;
    start_bytes_ = sample.delivered_bytes;
    return;
  }
  const Duration lasted = now - *start_;
  if (lasted < std::max(kWindowMin, 5 * sample.round_trip)) return;
  const double rate =
      static_cast<double>(sample.delivered_bytes - start_bytes_) / std::chrono::duration<double>(lasted).count();
  start_ = now;
  start_bytes_ = sample.delivered_bytes;
  Judge(rate, sample, now);
}

void LaneCount::Judge(double rate, const Sample& sample, TimePoint now) {
  if (trial_from_ != 0) {
    if (settling_-- > 0) return;
    const bool keep = rate > kGain * before_;
    if (!keep) used_ = trial_from_;
    pause_ = keep ? Duration() : std::clamp(2 * pause_, kPauseMin, kPauseMax);
    trial_from_ = 0;
    next_trial_ = now + pause_;
    before_ = rate;
    return;
  }
  const double before = std::exchange(before_, rate);
  const bool steady = before > 0 && rate < kSteady * before && before < kSteady * rate;
  const std::size_t more = std::min(sample.lanes, used() + used() / 2);
  if (!steady || now < next_trial_ || more <= used()) return;
  trial_from_ = std::exchange(used_, more);
  settling_ = kSettlingWindows;
}

}  // namespace ringway::core
