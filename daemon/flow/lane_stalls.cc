#include "daemon/flow/lane_stalls.h"

#include <algorithm>
#include <utility>

namespace ringway::flow {
namespace {

constexpr double kNewest = 0.2;  // weight of the newest sample in the EWMA
constexpr Duration kWatchMin = std::chrono::seconds(1);
constexpr Duration kGap = std::chrono::milliseconds(250);
constexpr double kStalledShare = 1.0 / 16;
constexpr double kNextToNothing = 1.0 / 256;  // of the best

double Moved(const LaneSample& before, const LaneSample& now) {
  return now.delivered_bytes > before.delivered_bytes
             ? static_cast<double>(now.delivered_bytes - before.delivered_bytes)
             : 0;
}

}  // namespace

void LaneStalls::Add(std::span<const LaneSample> lanes, TimePoint now) {
  if (lanes.size() != lanes_.size()) {
    lanes_.assign(lanes.size(), Lane());
  } else {
    UpdateShares(lanes);
  }
  const bool gap = now - std::exchange(last_, now) > kGap;  // they may have been idle meanwhile
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    if (gap) lanes_[i].since.reset();
    if (lanes[i].delivered_bytes < lanes_[i].last.delivered_bytes) lanes_[i].since.reset();
    lanes_[i].last = lanes[i];
    Watch(i, now);
  }
}

void LaneStalls::UpdateShares(std::span<const LaneSample> now) {
  double total = 0;
  for (std::size_t i = 0; i < now.size(); ++i) total += Moved(lanes_[i].last, now[i]);
  if (total <= 0) return;
  const bool first = std::all_of(lanes_.begin(), lanes_.end(), [](const Lane& lane) { return lane.share == 0; });
  for (std::size_t i = 0; i < now.size(); ++i) {
    Lane& lane = lanes_[i];
    lane.share += (first ? 1 : kNewest) * (Moved(lane.last, now[i]) / total - lane.share);
  }
}

void LaneStalls::Watch(std::size_t index, TimePoint now) {
  Lane& lane = lanes_[index];
  if (!lane.last.busy) return lane.since.reset();
  if (!lane.since) {
    lane.since = now;
    lane.then = lane.last;
    return;
  }
  const Duration lasted = now - *lane.since;
  if (lasted < std::max(kWatchMin, 10 * lane.last.round_trip)) return;
  const double rate = Moved(lane.then, lane.last) / std::chrono::duration<double>(lasted).count();
  const bool held_up = 4 * (lane.last.receiver_limited - lane.then.receiver_limited) > lasted;
  lane.since.reset();
  best_ = std::max(best_, rate);
  const auto busy = std::count_if(lanes_.begin(), lanes_.end(), [](const Lane& other) { return other.last.busy; });
  const bool holds_others_up = busy == 1 && lanes_.size() > 1;
  const bool others_move = lane.share * static_cast<double>(busy) < kStalledShare;
  const bool next_to_nothing = rate < kNextToNothing * best_;
  const bool is_stalled = rate < kStalledShare * best_ && (holds_others_up || others_move || next_to_nothing);
  if (is_stalled && !held_up && !stalled_) stalled_ = index;
}

std::optional<std::size_t> LaneStalls::TakeStalled() {
  if (stalled_) best_ /= 2;
  return std::exchange(stalled_, std::nullopt);
}

}  // namespace ringway::flow
