#include "daemon/core/lane_renewal.h"

#include <utility>

namespace ringway::core {
namespace {

constexpr double kSlow = 0.25;
constexpr GrowingPause::Bounds kPause{.min = std::chrono::seconds(1), .max = std::chrono::seconds(30)};

}  // namespace

std::vector<std::size_t> LaneRenewal::Judge(std::span<const LaneHaste> lanes, double pace, TimePoint now) {
  pauses_.resize(lanes.size());
  std::vector<std::size_t> out;
  bool one_sends = false;
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    const bool is_slow = lanes[i].rate > 0 && lanes[i].rate < kSlow * pace;
    if (!is_slow || !pauses_[i].IsOver(now)) continue;
    if (lanes[i].sending && std::exchange(one_sends, true)) continue;
    pauses_[i].OnTry(kPause, now);
    out.push_back(i);
  }
  return out;
}

}  // namespace ringway::core
