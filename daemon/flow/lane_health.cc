#include "daemon/flow/lane_health.h"

namespace ringway::flow {
namespace {

constexpr Backoff::Bounds kReplacePause{.min = std::chrono::seconds(30), .max = std::chrono::minutes(5)};

bool IsUnhealthy(const LaneAllowance& lane) { return lane.now > 0 && 2 * lane.now < lane.fresh && !lane.in_use; }

}  // namespace

std::optional<std::size_t> LaneHealth::Judge(std::span<const LaneAllowance> lanes, TimePoint now) {
  pauses_.resize(lanes.size());
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    if (!IsUnhealthy(lanes[i]) || !pauses_[i].IsOver(now)) continue;
    pauses_[i].OnTry(kReplacePause, now);
    return i;
  }
  return std::nullopt;
}

}  // namespace ringway::flow
