#include "daemon/core/lane_wear.h"

#include <algorithm>

namespace ringway::core {
namespace {

constexpr Duration kPauseMin = std::chrono::seconds(30);
constexpr Duration kPauseMax = std::chrono::minutes(5);
constexpr int kSoon = 4;  // pauses

bool IsWorn(const LaneAllowance& lane) { return lane.now > 0 && 2 * lane.now < lane.fresh && !lane.in_use; }

}  // namespace

std::optional<std::size_t> LaneWear::Judge(std::span<const LaneAllowance> lanes, TimePoint now) {
  lanes_.resize(lanes.size());
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    Lane& lane = lanes_[i];
    const Duration age = now - lane.replaced;
    if (!IsWorn(lanes[i]) || age < lane.pause) continue;
    lane.pause = age < kSoon * lane.pause ? std::min(2 * lane.pause, kPauseMax) : kPauseMin;
    lane.replaced = now;
    return i;
  }
  return std::nullopt;
}

}  // namespace ringway::core
