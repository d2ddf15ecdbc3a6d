#include "daemon/flow/path_model.h"

#include <algorithm>
#include <utility>

namespace ringway::flow {
namespace {

constexpr double kLostShareMax = 0.01;
constexpr double kLostMuch = 0.02;
constexpr double kLossVaries = 2;  // windows are short
constexpr double kOwnLossMax = 0.06;
constexpr double kStillGrowing = 1.25;
constexpr int kInertia = 4;
constexpr Duration kOwnDelayMax = std::chrono::milliseconds(10);
constexpr double kOwnKept = 0.75;
constexpr double kKeptUp = 0.985;  // deliveries of a rate that grows lag behind
constexpr double kSmoothing = 0.25;
constexpr double kSmoothingUrgent = 0.5;
constexpr Duration kQueueMin = std::chrono::milliseconds(4);
constexpr Duration kLongQueueMin = std::chrono::milliseconds(10);
constexpr double kUndrained = 0.94;
constexpr int kForeignWindows = 5;
constexpr int kForeignKept = 50;

}  // namespace

bool IsLongQueue(Duration queueing, Duration round_trip) {
  return queueing > std::max<Duration>(kLongQueueMin, round_trip / 8);
}

PathModel::Signs PathModel::Read(const Window& window, Limit limit) {
  Signs signs;
  mean_ = before_ > 0 ? (before_ + window.delivered) / 2 : window.delivered;
  const double before = std::exchange(before_, window.delivered);
  signs.grows = window.delivered > kStillGrowing * before;
  signs.steady = !signs.grows && kStillGrowing * window.delivered >= before;
  const Duration queueing = window.queueing - own_.delay;
  signs.queue = queueing > std::max<Duration>(kQueueMin, window.round_trip / 16);
  signs.long_queue = IsLongQueue(queueing, window.round_trip);
  signs.lossy = window.lost_share > kLostShareMax + own_loss();
  signs.bound_by_lanes = window.few_lanes && !IsLongQueue(window.standing, window.round_trip);
  signs.overdriven = IsOverdriven(window, signs, limit);
  queue_.shrinks = window.queueing + kQueueMin <= std::exchange(queue_.before, window.queueing);
  queue_.without = signs.long_queue ? 0 : queue_.without + 1;
  if (!signs.long_queue) queue_.not_drained = 0;
  if (queue_.without >= kForeignKept) queue_.foreign = false;
  return signs;
}

void PathModel::OnNotDrained() {
  queue_.not_drained = queue_.shrinks ? 0 : queue_.not_drained + 1;
  if (queue_.not_drained >= kForeignWindows) queue_.foreign = true;
}

bool PathModel::FallsShort() const { return arriving() < kKeptUp; }

void PathModel::AddOwn(const Window& window) {
  if (window.lost_share > kOwnLossMax) return;
  own_.sent = kOwnKept * own_.sent + window.delivered;
  own_.lost = kOwnKept * own_.lost + window.delivered * window.lost_share;
  own_.delay = std::min(kOwnDelayMax, (own_.delay + window.queueing) / 2);
}

double PathModel::own_loss() const {
  return own_.sent > 0 ? std::min(kLossVaries * own_.lost / own_.sent, kOwnLossMax) : 0;
}

bool PathModel::IsOverdriven(const Window& window, const Signs& signs, Limit limit) {
  const double lost_share = window.alone ? window.lost_share : 0;
  const double lost_twice = std::min(lost_share, std::exchange(lost_share_, lost_share));
  if (limit == Limit::kNone && signs.grows && window.lost_share < kOwnLossMax) return false;
  if (limit != Limit::kMeasured && signs.bound_by_lanes) return lost_twice > kOwnLossMax;
  return lost_twice > kLostMuch + own_loss() || (signs.queue && signs.lossy);
}

void PathModel::OnPaused() {
  before_ = mean_ = 0;
  restarts_ = true;
}

void PathModel::Settle(double bandwidth) {
  if (weight_ == 0) bandwidth_ = 0;
  weight_ = std::min(weight_ + 1, kInertia);
  bandwidth_ += (bandwidth - bandwidth_) / weight_;
}

void PathModel::Raise(double bandwidth) {
  seen_ = std::max(seen_, bandwidth);
  if (bandwidth <= bandwidth_) return;
  if (is_measured())
    Settle(bandwidth);
  else
    bandwidth_ = bandwidth;
}

void PathModel::Estimate(const Window& window, const Signs& signs, const Drive& drive) {
  const bool app_limited = window.app_limited && !signs.queue;
  const double weight = drive.urgent ? kSmoothingUrgent : kSmoothing;
  const double smoothed = bandwidth_ + weight * (window.delivered - bandwidth_);
  given_ += kSmoothing * (window.given - given_);
  arrives_ += kSmoothing * (window.delivered - arrives_);
  if (drive.limit <= 0) {
    const bool is_settled = restarts_ || !is_measured() ? signs.steady : !signs.grows;
    if (is_settled) restarts_ = false;
    if (is_settled && !app_limited)
      Settle(mean_);
    else
      Raise(window.delivered);
    return;
  }
  weight_ = kInertia;
  if (drive.filled) {
    // A limit that was lowered for a queue only does not lower c.
    const bool stays = drive.only_drained && drive.limit >= kUndrained * bandwidth_;
    bandwidth_ = stays ? std::max(drive.limit, bandwidth_) : drive.limit;
  } else {
    const bool is_full = FallsShort() || window.lost_share > kLostMuch + own_loss();
    const bool falls = (drive.held && is_full && !app_limited) || drive.urgent;
    bandwidth_ = falls ? smoothed : std::max(bandwidth_, smoothed);
  }
}

}  // namespace ringway::flow
