#include "daemon/flow/pair_flow.h"

#include <utility>

namespace ringway::flow {
namespace {

// Bytes per second: a small lane may always send as fast, however slow the path. It rarely has more to send, and an
// operation must not wait for its pacing.
constexpr double kSmallBurstMin = 1e6;

// Times the pair's limit: one lane alone must be able to use all of it.
constexpr double kBurst = 1.5;

// Retransmitted bytes by delivered ones, from which on large lanes take turns.
constexpr double kLossyShare = 0.0005;
constexpr double kLossWindowBytes = 8e6;

constexpr Duration kRest = std::chrono::seconds(1);

// Round trips vary so many times their variation by jitter alone.
constexpr int kVariations = 3;

class LaneStates {
 public:
  explicit LaneStates(std::span<const LaneState> lanes) : lanes_(lanes) {}
  std::size_t size() const { return lanes_.size(); }
  LaneState state(std::size_t i) const { return lanes_[i]; }

 private:
  std::span<const LaneState> lanes_;
};

bool IsWriting(const LaneState& lane) { return lane.up && !lane.idle; }

bool IsAnyWriting(std::span<const LaneState> lanes) { return std::any_of(lanes.begin(), lanes.end(), IsWriting); }

std::size_t LargeLanesUp(std::span<const LaneState> lanes) {
  return static_cast<std::size_t>(
      std::count_if(lanes.begin(), lanes.end(), [](const LaneState& lane) { return lane.up && lane.every_size; }));
}

// Returns whether there are large lanes in use and all of them are busy.
template <typename IsBusy>
bool AreAll(std::span<const LaneState> lanes, std::size_t large, const IsBusy& is_busy) {
  std::size_t idle = 0;
  std::size_t busy = 0;
  ForEachUsed(LaneStates(lanes), large, [&](std::size_t i) {
    if (lanes[i].every_size) ++(is_busy(i) ? busy : idle);
  });
  return idle == 0 && busy > 0;
}

// Returns whether a lane that carries large segments has unsent bytes.
bool IsAnyUnsent(std::span<const LaneState> lanes, std::span<const LaneTraffic> traffic) {
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    if (lanes[i].up && lanes[i].every_size && traffic[i].unsent) return true;
  }
  return false;
}

std::vector<LaneSample> SamplesOf(std::span<const LaneState> lanes, std::span<const LaneTraffic> traffic) {
  std::vector<LaneSample> out;
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    out.push_back({.busy = IsWriting(lanes[i]) || traffic[i].unsent,
                   .delivered_bytes = traffic[i].delivered_bytes,
                   .receiver_limited = traffic[i].receiver_limited,
                   .round_trip = traffic[i].round_trip});
  }
  return out;
}

// Allowances of the small lanes; 0 (not known) where the round trip is short.
std::vector<LaneAllowance> AllowancesOf(std::span<const LaneTraffic> traffic) {
  std::vector<LaneAllowance> out;
  for (std::size_t i = 0; i < SmallLanes(traffic.size()); ++i) {
    const LaneTraffic& lane = traffic[i];
    LaneAllowance& allowance = out.emplace_back();
    allowance.in_use = lane.in_use;
    if (lane.round_trip < kFarRoundTrip) continue;  // a few packets a round trip are fast enough
    allowance.now = lane.window_bytes;
    allowance.fresh = lane.fresh_window_bytes;
  }
  return out;
}

// Returns the rates by lane; 0 (not known) for all but the large lanes in use.
std::vector<LaneRate> RatesOf(std::span<const LaneState> lanes, std::size_t large,
                              std::span<const LaneTraffic> traffic) {
  std::vector<LaneRate> out(lanes.size());
  ForEachUsed(LaneStates(lanes), large, [&](std::size_t i) {
    if (lanes[i].every_size) out[i] = {.rate = traffic[i].rate, .sending = traffic[i].sending};
  });
  return out;
}

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

std::uint64_t RecentLoss::Add(std::uint64_t delivered_bytes, std::uint64_t resent_bytes) {
  const std::uint64_t delivered_before = std::exchange(delivered_, delivered_bytes);
  const std::uint64_t resent_before = std::exchange(resent_, resent_bytes);
  const std::uint64_t resent = resent_bytes > resent_before ? resent_bytes - resent_before : 0;
  if (delivered_bytes < delivered_before || resent_bytes < resent_before) return resent;
  recent_ += static_cast<double>(delivered_bytes - delivered_before);
  recent_resent_ += static_cast<double>(resent);
  if (recent_ < kLossWindowBytes) return resent;
  is_high_ = recent_resent_ > kLossyShare * recent_;
  recent_ = recent_resent_ = 0;
  return resent;
}

void PairFlow::OnLaneOpened(std::size_t lane, std::size_t lanes) {
  tails_.resize(lanes);
  tails_[lane] = {};
}

// ---- segments

Duration PairFlow::WaitForLarge(TimePoint now) {
  const Duration for_path = bucket_.Wait(now);
  held_.Add(for_path, now);
  if (for_path > Duration()) {
    held_by_uplink_.Add({}, now);
    return for_path;
  }
  const Duration for_uplink = host_->Wait(path_, now);
  held_by_uplink_.Add(for_uplink, now);
  return for_uplink;
}

void PairFlow::OnGiven(std::size_t lane, bool every_size, std::size_t bytes, TimePoint now) {
  given_bytes_ += bytes;
  bucket_.OnSent(static_cast<double>(bytes));
  if (!within_host_) host_->OnSent(path_, static_cast<double>(bytes), !every_size, now);
  if (every_size && now - std::exchange(large_lane_at_, now) > kRest) resumed_after_rest_ = true;
  if (bytes > kSmallLanePayloadBytes + kSegmentHeaderBytes) host_->OnLargeSegment(path_.self, now);
  if (lane < tails_.size()) tails_[lane].OnSegment();
}

void PairFlow::ChargeResent(double bytes) {
  if (bytes <= 0) return;
  bucket_.OnResent(bytes);
  if (!within_host_) host_->OnResent(path_, bytes);
}

std::vector<std::size_t> PairFlow::TakeRestarts(TimePoint now) {
  if (!std::exchange(resumed_after_rest_, false)) return {};
  return renewal_.AfterRest(rate_limit(), now);
}

// ---- ticks

bool PairFlow::Look(std::span<const LaneState> lanes, TimePoint now) {
  if (within_host_) return false;
  tick_ = {.was_backlogged = std::exchange(backlogged_, false),
           .held_by_path = held_.TakeHeld(now),
           .held_by_uplink = held_by_uplink_.TakeHeld(now),
           .may_be_busy = false};
  tick_.may_be_busy = tick_.was_backlogged || tick_.held() || IsAnyWriting(lanes);
  return std::exchange(carried_, false) || tick_.may_be_busy;
}

PairFlow::Verdict PairFlow::Judge(std::span<const LaneState> lanes, std::span<const LaneTraffic> traffic, bool waits,
                                  TimePoint now) {
  Verdict out;
  PathSample sample = SampleOf(path_.other, lanes, traffic);
  ChargeResent(static_cast<double>(loss_.Add(sample.delivered_bytes, sample.resent_bytes)));
  const std::vector<LaneSample> samples = SamplesOf(lanes, traffic);
  const bool busy =
      tick_.may_be_busy || std::any_of(samples.begin(), samples.end(), [](const auto& lane) { return lane.busy; });
  carried_ = std::any_of(traffic.begin(), traffic.end(), [](const LaneTraffic& lane) { return lane.in_use; });
  const auto replace = [&](std::optional<std::size_t> lane, const char* why) {
    if (lane) out.replace.push_back({*lane, why});
  };
  replace(health_.Judge(AllowancesOf(traffic), now), "congestion control holds it back, a fresh one will be faster");
  const double limit = rate_limit();
  const std::size_t large = large_lanes(lanes.size());
  out.renew = renewal_.Judge(RatesOf(lanes, large, traffic), limit, now);
  const bool all_unsent = AreAll(lanes, large, [&](std::size_t i) { return traffic[i].unsent; });
  backlogged_ = waits && (tick_.held() || AreAll(lanes, large, [&](std::size_t i) { return !lanes[i].idle; }));
  scaler_.Add({.backlogged = backlogged_ || all_unsent,
               .held = tick_.held(),
               .paced = limit > 0,
               .lanes = LargeLanesUp(lanes),
               .delivered_bytes = sample.delivered_bytes,
               .resent_bytes = sample.resent_bytes,
               .round_trip = sample.round_trip,
               .queueing = sample.queueing},
              now);
  if (!busy) return out;
  sample.given_bytes = given_bytes_;
  sample.backlogged = backlogged_;
  sample.unsent = IsAnyUnsent(lanes, traffic);
  sample.held = tick_.held_by_path;
  sample.held_by_uplink = tick_.held_by_uplink;
  sample.lanes_are_enough = scaler_.is_enough();
  if (tick_.was_backlogged || backlogged_ || sample.unsent) out.sample = sample;
  stalls_.Add(samples, now);
  replace(stalls_.TakeStalled(), "it moved next to nothing for a second");
  return out;
}

std::optional<std::size_t> PairFlow::TakeLanesWanted(TimePoint now) {
  const std::size_t wanted = std::max<std::size_t>(kLanesRemote, SmallLanes(kLanesRemote) + scaler_.wanted(now));
  if (within_host_ || std::exchange(lanes_wanted_, wanted) == wanted) return std::nullopt;
  return wanted;
}

double PairFlow::BurstLimit(bool every_size) const {
  const double burst = kBurst * rate_limit();
  return burst > 0 && !every_size ? std::max(burst, kSmallBurstMin) : burst;
}

}  // namespace ringway::flow
