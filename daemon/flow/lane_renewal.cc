#include "daemon/flow/lane_renewal.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace ringway::flow {
namespace {

constexpr double kSlow = 0.25;
constexpr Duration kRound = std::chrono::seconds(8);
constexpr Duration kIdle = std::chrono::seconds(4);
constexpr Duration kFresh = std::chrono::seconds(2);
constexpr Backoff::Bounds kRenewalPause{.min = std::chrono::seconds(1), .max = std::chrono::seconds(30)};

}  // namespace

std::vector<std::size_t> LaneRenewal::Judge(std::span<const LaneRate> lanes, double pace, TimePoint now) {
  lanes_.resize(lanes.size(), {.reset_at = now, .pause = {}});
  std::vector<std::size_t> out;
  bool one_sends = false;
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    const bool is_slow = lanes[i].rate > 0 && lanes[i].rate < kSlow * pace;
    if (!is_slow || !lanes_[i].pause.IsOver(now)) continue;
    if (lanes[i].sending && std::exchange(one_sends, true)) continue;
    lanes_[i].pause.OnTry(kRenewalPause, now);
    out.push_back(i);
  }
  if (pace > 0 && out.empty()) TakeTurn(lanes, now, out);
  for (const std::size_t lane : out) lanes_[lane].reset_at = now;
  return out;
}

std::vector<std::size_t> LaneRenewal::AfterRest(double pace, TimePoint now) {
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < lanes_.size() && pace > 0; ++i) {
    if (now - lanes_[i].reset_at < kFresh) continue;
    lanes_[i].reset_at = now;
    out.push_back(i);
  }
  return out;
}

void LaneRenewal::TakeTurn(std::span<const LaneRate> lanes, TimePoint now, std::vector<std::size_t>& out) {
  std::optional<std::size_t> oldest;
  int sending = 0;
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    sending += lanes[i].sending;
    if (lanes[i].rate <= 0) continue;
    if (!lanes[i].sending) {
      if (now - lanes_[i].reset_at >= kIdle) out.push_back(i);
    } else if (!oldest || lanes_[i].reset_at < lanes_[*oldest].reset_at) {
      oldest = i;
    }
  }
  if (!oldest || now - lanes_[*oldest].reset_at < kFresh || now - last_turn_ < kRound / sending) return;
  last_turn_ = std::max(last_turn_, now - 2 * kRound / sending) + kRound / sending;  // ticks come late
  out.push_back(*oldest);
}

}  // namespace ringway::flow
