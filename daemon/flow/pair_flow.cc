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

// Round trips vary so many times their variation by jitter alone.
constexpr int kVariations = 3;

}  // namespace

PathSample SampleOf(PeerId other, std::span<const LaneState> lanes, std::span<const LaneTraffic> traffic) {
  PathSample sample;
  sample.other = other;
  std::int64_t sending = 0;
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    if (!lanes[i].up) continue;
    ++sample.lanes;
    sample.delivered_bytes += traffic[i].delivered_bytes;
    sample.resent_bytes += traffic[i].resent_bytes;
    sample.receiver_limited += traffic[i].receiver_limited;
    if (traffic[i].sending) {
      ++sending;
      sample.queueing += traffic[i].queueing;
      sample.standing += std::max(Duration(), traffic[i].queueing - kVariations * traffic[i].variation);
    }
    const bool shorter = sample.round_trip == Duration() || traffic[i].round_trip < sample.round_trip;
    if (traffic[i].round_trip != Duration() && shorter) sample.round_trip = traffic[i].round_trip;
  }
  if (sending > 0) {
    sample.queueing /= sending;
    sample.standing /= sending;
  }
  return sample;
}

// ---- pacing

Duration Pacer::Wait(TimePoint now) {
  const Duration for_path = bucket_.Wait(now);
  const Duration for_uplink = for_path > Duration() ? Duration() : host_->Wait(path_, now);
  held_.Add(for_path, now);
  held_by_uplink_.Add(for_uplink, now);
  return std::max(for_path, for_uplink);
}

void Pacer::OnSent(std::size_t bytes, bool bypasses, TimePoint now) {
  sent_bytes_ += bytes;
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
  tick_ = {.was_backlogged = std::exchange(backlogged_, false), .held = pacer_.TakeHeld(now), .may_be_busy = false};
  tick_.may_be_busy = tick_.was_backlogged || tick_.held.any() ||
                      std::any_of(lanes.begin(), lanes.end(), [](const auto& lane) { return lane.up && !lane.idle; });
  return std::exchange(carried_, false) || tick_.may_be_busy;
}

PairFlow::Verdict PairFlow::Judge(std::span<const LaneState> lanes, std::span<const LaneTraffic> traffic, bool waits,
                                  TimePoint now) {
  const LaneLook look(lanes, traffic, large_lanes(lanes.size()));
  PathSample sample = SampleOf(other_, lanes, traffic);
  const bool busy = tick_.may_be_busy || look.Count([&](std::size_t i) { return look.IsBusy(i); }) > 0;
  carried_ = std::any_of(traffic.begin(), traffic.end(), [](const LaneTraffic& lane) { return lane.in_use; });
  const bool held = tick_.held.any();
  backlogged_ = waits && (held || look.AreAllUsedLarge([&](std::size_t i) { return look.IsWriting(i); }));
  const LaneSet::Demand demand{.pace = pacer_.limit(), .busy = busy, .held = held, .backlogged = backlogged_};
  Verdict out{lanes_.Judge(look, sample, demand, now), {}};
  pacer_.OnResent(static_cast<double>(out.resent_bytes));
  if (!busy) return out;
  sample.given_bytes = pacer_.sent_bytes();
  sample.backlogged = backlogged_;
  sample.unsent = look.Count([&](std::size_t i) { return look.IsLarge(i) && traffic[i].unsent; }) > 0;
  sample.held = tick_.held.by_path;
  sample.held_by_uplink = tick_.held.by_uplink;
  sample.lanes_are_enough = lanes_.is_enough();
  if (tick_.was_backlogged || backlogged_ || sample.unsent) out.sample = sample;
  return out;
}

}  // namespace ringway::flow
