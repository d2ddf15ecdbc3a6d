#include "daemon/core/ceiling.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace ringway::core {
namespace {

constexpr double kLostShareMax = 0.01;
constexpr double kLess = 0.95;
constexpr double kFloor = 0.25;
constexpr double kUsedUp = 0.97;
constexpr double kUsedUpAlone = 0.85;  // congestion control below the limit leaves something of it now and then
constexpr double kRegrown = 0.5;       // of the best
constexpr double kStep = 0.03;
constexpr double kBesideQueue = 1.01;
constexpr double kStepMax = 0.25;
constexpr Duration kQueueMin = std::chrono::milliseconds(4);

bool IsQueue(const Ceiling::Window& window) {
  return window.queueing > std::max<Duration>(kQueueMin, window.round_trip / 16);
}

}  // namespace

void Ceiling::Judge(const Window& window) {
  if (window.delivered <= 0) return;
  const bool queue = IsQueue(window);
  const bool used_up = window.delivered > (queue ? kUsedUp : kUsedUpAlone) * limit_;
  if (queue || !used_up) clean_ = 0;
  const bool overdriven = queue && window.lost_share > kLostShareMax;
  if (!overdriven) {
    series_ = 0;
    best_ = std::max(best_, window.delivered);
  } else if (series_ <= 0) {
    series_ = window.delivered;
    if (std::exchange(doubled_, false)) best_ = std::max(window.delivered, best_ / 4);
  }
  const double less = std::max(kLess * window.delivered, kFloor * series_);
  if (limit_ <= 0) {
    if (overdriven) limit_ = less;
  } else if (overdriven) {
    limit_ = std::min(limit_, less);
  } else if (used_up && limit_ < kRegrown * best_) {
    limit_ *= 2;
    doubled_ = true;
  } else if (used_up) {
    limit_ *= queue ? kBesideQueue : 1 + std::min(kStepMax, std::ldexp(kStep, clean_++));
  }
}

}  // namespace ringway::core
