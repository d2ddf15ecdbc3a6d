#include "daemon/core/lane_renewal.h"

#include <algorithm>
#include <utility>

namespace ringway::core {
namespace {

constexpr double kSlow = 0.25;
constexpr Duration kPauseMin = std::chrono::seconds(1);
constexpr Duration kPauseMax = std::chrono::seconds(30);
constexpr int kSoon = 4;  // pauses

}  // namespace

std::vector<std::size_t> LaneRenewal::Judge(std::span<const LaneHaste> lanes, double pace, TimePoint now) {
  lanes_.resize(lanes.size());
  std::vector<std::size_t> out;
  bool one_sends = false;
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    const bool is_slow = lanes[i].rate > 0 && lanes[i].rate < kSlow * pace;
    Lane& lane = lanes_[i];
    const Duration age = now - lane.renewed;
    if (!is_slow || age < lane.pause) continue;
    if (lanes[i].sending && std::exchange(one_sends, true)) continue;
    lane.pause = age < kSoon * lane.pause ? std::min(2 * lane.pause, kPauseMax) : kPauseMin;
    lane.renewed = now;
    out.push_back(i);
  }
  return out;
}

}  // namespace ringway::core
