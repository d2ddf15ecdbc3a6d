#include "daemon/flow/pair_flow.h"

#include <utility>

namespace ringway::flow {
namespace {

// Bytes per second: a small lane may always send as fast, however slow the path. It rarely has more to send, and an
// operation must not wait for its pacing.
constexpr double kSmallBurstMin = 1e6;

// Times the pair's limit: one lane alone must be able to use all of it.
constexpr double kBurst = 1.5;

constexpr Duration kRest = std::chrono::seconds(1);

// Returns whether the receive window limited the lanes for over a quarter of the tick.
bool IsReceiverLimited(const LaneLook& look, const Traffic& tick, Duration lasted) {
  const std::size_t up = look.Count([&](std::size_t i) { return look.state(i).up; });
  return 4 * tick.receiver_limited > lasted * static_cast<std::int64_t>(up);
}

}  // namespace

// ---- pacing

Duration Pacer::Wait(TimePoint now) {
  const Duration for_path = bucket_.Wait(now);
  const Duration for_uplink = for_path > Duration() ? Duration() : host_->Wait(path_, now);
  held_.Add(for_path, now);
  held_by_uplink_.Add(for_uplink, now);
  return std::max(for_path, for_uplink);
}

void Pacer::OnSent(std::size_t bytes, bool bypasses, TimePoint now) {
  sent_ += static_cast<double>(bytes);
  bucket_.OnSent(static_cast<double>(bytes));
  host_->OnSent(path_, static_cast<double>(bytes), bypasses, now);
  if (bytes > kSmallLanePayloadBytes + kSegmentHeaderBytes) host_->OnLargeSegment(path_.self, now);
}

void Pacer::OnResent(double bytes) {
  if (bytes <= 0) return;
  bucket_.OnResent(bytes);
  host_->OnResent(path_, bytes);
}

Pacer::Held Pacer::TakeHeld(TimePoint now) {
  return {.by_path = held_.TakeHeld(now), .by_uplink = held_by_uplink_.TakeHeld(now)};
}

double Pacer::BurstLimit(bool every_size) const {
  const double burst = kBurst * limit();
  return burst > 0 && !every_size ? std::max(burst, kSmallBurstMin) : burst;
}

// ---- segments

void PairFlow::OnGiven(std::size_t lane, bool every_size, std::size_t bytes, TimePoint now) {
  pacer_.OnSent(bytes, !every_size, now);
  if (every_size && now - std::exchange(large_lane_at_, now) > kRest) resumed_after_rest_ = true;
  lanes_.OnSegment(lane);
}

std::vector<std::size_t> PairFlow::TakeRestarts(TimePoint now) {
  if (!std::exchange(resumed_after_rest_, false)) return {};
  return lanes_.AfterRest(pacer_.limit(), now);
}

// ---- ticks

bool PairFlow::Look(std::span<const LaneState> lanes, TimePoint now) {
  if (within_host_) return false;
  tick_ = {.was_backlogged = std::exchange(backlogged_, false),
           .held = pacer_.TakeHeld(now),
           .may_be_busy = false,
           .sampled_at = std::exchange(sampled_at_, std::nullopt)};
  tick_.may_be_busy = tick_.was_backlogged || tick_.held.any() ||
                      std::any_of(lanes.begin(), lanes.end(), [](const auto& lane) { return lane.up && !lane.idle; });
  return std::exchange(carried_, false) || tick_.may_be_busy;
}

PairFlow::Verdict PairFlow::Judge(std::span<const LaneState> lanes, std::span<const LaneTraffic> traffic, bool waits,
                                  TimePoint now) {
  const LaneLook look(lanes, traffic, large_lanes(lanes.size()));
  Traffic tick = lanes_.TakeTraffic(look);
  tick.given = pacer_.TakeSent();
  pacer_.OnResent(tick.resent);
  const bool busy = tick_.may_be_busy || look.Count([&](std::size_t i) { return look.IsBusy(i); }) > 0;
  carried_ = std::any_of(traffic.begin(), traffic.end(), [](const LaneTraffic& lane) { return lane.in_use; });
  const bool held = tick_.held.any();
  backlogged_ = waits && (held || look.AreAllUsedLarge([&](std::size_t i) { return look.IsWriting(i); }));
  const LaneSet::Demand demand{.pace = pacer_.limit(), .busy = busy, .held = held, .backlogged = backlogged_};
  Verdict out{lanes_.Judge(look, tick, demand, now), {}};
  const bool unsent = look.Count([&](std::size_t i) { return look.IsLarge(i) && traffic[i].unsent; }) > 0;
  if (!busy || !(tick_.was_backlogged || backlogged_ || unsent)) return out;
  sampled_at_ = now;
  out.sample = {.other = other_,
                .traffic = {},
                .backlogged = backlogged_,
                .unsent = unsent,
                .held_by_uplink = tick_.held.by_uplink,
                .lanes_are_enough = lanes_.is_enough(),
                .round_trip = look.round_trip(),
                .carried = look.carried()};
  if (tick_.sampled_at) {  // else it was longer than a tick
    out.sample->traffic = tick;
    out.sample->receiver_limited = IsReceiverLimited(look, tick, now - *tick_.sampled_at);
  }
  out.sample->traffic.queueing = tick.queueing;
  out.sample->traffic.standing = tick.standing;
  out.sample->traffic.held = tick_.held.by_path;
  return out;
}

}  // namespace ringway::flow
