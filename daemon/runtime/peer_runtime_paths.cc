// What a PeerRuntime sends over which lanes, how fast, and what it learns of the paths by it.
#include <algorithm>
#include <utility>

#include "daemon/runtime/peer_runtime.h"

namespace ringway::daemon {

void PeerRuntime::SamplePaths(TimePoint now) {
  if (ended_) return;
  const std::vector<PeerId> waiting = peer_.PeersWithWork();
  std::vector<flow::PathSample> samples;
  std::vector<SpentLane> spent;
  for (auto& [other, pair] : pairs_) {
    const bool waits = std::find(waiting.begin(), waiting.end(), other) != waiting.end();
    if (!pair.one_host) SamplePair(other, pair, waits, now, samples, spent);
  }
  for (const flow::PathSample& sample : samples) host_->pacer().Add(options_.self, sample);
  for (const SpentLane& lane : spent) GiveUp(lane);
  const bool lanes_changed = WantLanes(now);
  if (!samples.empty()) peer_.OnPathSamples(samples, now);
  if (!samples.empty() || lanes_changed) Run();
}

bool PeerRuntime::WantLanes(TimePoint now) {
  bool changed = false;
  for (auto& [other, pair] : pairs_) {
    const std::size_t wanted = std::max<std::size_t>(kLanesRemote, SmallLanes(kLanesRemote) + pair.count.wanted(now));
    if (pair.one_host || std::exchange(pair.lanes_wanted, wanted) == wanted) continue;
    peer_.WantLanes(other, static_cast<std::uint32_t>(wanted), now);
    changed = true;
  }
  return changed;
}

void PeerRuntime::SamplePair(PeerId other, Pair& pair, bool waits, TimePoint now,
                             std::vector<flow::PathSample>& samples, std::vector<SpentLane>& spent) {
  const bool was_backlogged = std::exchange(pair.backlogged, false);
  const bool carried = std::exchange(pair.carried, false);
  const bool held_by_path = pair.held.TakeHeld(now);
  const bool held_by_uplink = pair.held_by_uplink.TakeHeld(now);
  const bool held = held_by_path || held_by_uplink;
  const bool may_be_busy = was_backlogged || held || IsBusy(pair.lanes);
  if (!may_be_busy && !carried) return;
  const std::vector<net::TcpTraffic> traffic = TrafficOf(pair.lanes);
  const std::vector<flow::LaneSample> lanes = LaneSamplesOf(pair.lanes, traffic);
  const bool busy = may_be_busy || std::any_of(lanes.begin(), lanes.end(), [](const auto& lane) { return lane.busy; });
  const std::vector<flow::LaneAllowance> small = AllowancesOf(traffic);
  pair.carried = std::any_of(traffic.begin(), traffic.end(), [](const net::TcpTraffic& lane) { return lane.in_use; });
  const auto spend = [&](std::optional<std::size_t> lane, const char* why) {
    if (lane) spent.push_back({{other, LaneId(static_cast<std::uint32_t>(*lane))}, why});
  };
  spend(pair.wear.Judge(small, now), "congestion control holds it back, a fresh one will be faster");
  const double limit = host_->pacer().limit({.self = options_.self, .other = other});
  const std::vector<flow::LaneHaste> hastes = HastesOf(pair.lanes, pair.large(), traffic);
  for (const std::size_t slow : pair.renewal.Judge(hastes, limit, now)) pair.lanes[slow]->Renew();
  if (!busy) return;
  pair.backlogged = waits && (held || IsBacklogged(pair.lanes, pair.large()));
  if (was_backlogged || pair.backlogged) {
    flow::PathSample& sample = samples.emplace_back(SampleOf(other, pair.lanes, traffic));
    sample.backlogged = pair.backlogged;
    sample.held = held_by_path;
    sample.held_by_uplink = held_by_uplink;
    pair.count.Add({.backlogged = sample.backlogged && !held,
                    .paced = limit > 0,
                    .lanes = LargeLanesUp(pair.lanes),
                    .delivered_bytes = sample.delivered_bytes,
                    .resent_bytes = sample.resent_bytes,
                    .round_trip = sample.round_trip},
                   now);
  }
  pair.balance.Add(lanes, now);
  spend(pair.balance.TakeStalled(), "it moved next to nothing for a second");
}

void PeerRuntime::GiveUp(const SpentLane& spent) {
  const auto found = pairs_.find(spent.label.other);
  if (found == pairs_.end() || spent.label.id.value >= found->second.lanes.size()) return;
  const auto& lane = found->second.lanes[spent.label.id.value];
  if (lane == nullptr) return;
  lane->Close();
  OnLaneClosed(spent.label, spent.why);
}

void PeerRuntime::KeepPace() {
  for (auto& [other, pair] : pairs_) {
    if (pair.one_host) continue;
    const flow::PathKey path{.self = options_.self, .other = other};
    pair.pace.SetRate(host_->pacer().rate(path));
    LimitBursts(pair.lanes, host_->pacer().limit(path));
  }
}

bool PeerRuntime::Pump() {
  std::size_t bytes_left = kPumpBytes;
  Duration soonest = Duration::max();
  std::vector<PeerId> order = peer_.PeersWithWork();
  const auto last = std::find(order.begin(), order.end(), last_given_);
  if (last != order.end()) std::rotate(order.begin(), last + 1, order.end());
  for (const PeerId to : order) {
    const auto found = pairs_.find(to);
    if (found == pairs_.end()) continue;
    const Duration wait = PumpPair(to, found->second, bytes_left);
    if (wait > Duration()) soonest = std::min(soonest, wait);
  }
  if (soonest != Duration::max()) PumpIn(soonest);
  return bytes_left == 0;
}

// Small lanes do not wait for the pace, only count. Where there are no large segments to overtake, on any path, small
// ones take large lanes, too, and first: those have room for all of them at once, and congestion control that has seen
// the path. Then all keep the pace.
Duration PeerRuntime::PumpPair(PeerId other, Pair& pair, std::size_t& bytes_left) {
  constexpr Duration kOver = std::chrono::milliseconds(500);
  Duration wait{};
  pair.turns.large_first =
      MonotonicNow() - large_segment_at_ > kOver && !host_->pacer().IsNearby({.self = options_.self, .other = other});
  const auto give = [&](net::Lane& lane) {
    if (!pair.one_host && TakesEverySize(lane)) wait = WaitOf(other, pair);
    if (wait > Duration() && (TakesEverySize(lane) || pair.turns.large_first)) return false;
    const std::size_t bytes = Give(lane, bytes_left);
    if (bytes == 0) return false;
    pair.carried = true;
    if (TakesEverySize(lane)) last_given_ = other;
    if (!pair.one_host) OnGiven(other, pair, lane, bytes);
    return true;
  };
  // Round after round, so that all carry alike.
  while (bytes_left > 0 && GiveRound(pair.lanes, pair.large(), pair.turns, give)) {
  }
  return wait;
}

Duration PeerRuntime::WaitOf(PeerId other, Pair& pair) {
  const TimePoint now = MonotonicNow();
  const Duration for_path = pair.pace.Wait(now);
  pair.held.Add(for_path, now);
  if (for_path > Duration()) {
    pair.held_by_uplink.Add({}, now);
    return for_path;
  }
  const Duration for_uplink = host_->pacer().Wait({.self = options_.self, .other = other}, now);
  pair.held_by_uplink.Add(for_uplink, now);
  return for_uplink;
}

void PeerRuntime::OnGiven(PeerId other, Pair& pair, const net::Lane& lane, std::size_t bytes) {
  constexpr Duration kRest = std::chrono::seconds(1);
  const TimePoint now = MonotonicNow();
  pair.pace.OnSent(static_cast<double>(bytes));
  host_->pacer().OnSent({.self = options_.self, .other = other}, static_cast<double>(bytes), !TakesEverySize(lane),
                        now);
  if (TakesEverySize(lane) && now - std::exchange(pair.large_lane_at, now) > kRest) BeginAgain(other, pair, now);
  if (bytes > kSmallLanePayloadBytes + kSegmentHeaderBytes) large_segment_at_ = now;
  pair.tails[lane.label().id.value].OnSegment();
  ArmTails();
}

void PeerRuntime::BeginAgain(PeerId other, Pair& pair, TimePoint now) {
  const double limit = host_->pacer().limit({.self = options_.self, .other = other});
  for (const std::size_t i : pair.renewal.AfterRest(limit, now)) {
    if (i < pair.lanes.size() && pair.lanes[i] != nullptr && TakesEverySize(*pair.lanes[i])) pair.lanes[i]->Renew();
  }
}

// The soonest of all pairs counts, also where one was waited for already.
void PeerRuntime::PumpIn(Duration wait) {
  const TimePoint due = MonotonicNow() + wait;
  if (pump_due_ && *pump_due_ <= due) return;
  pump_due_ = due;
  pace_timer_.expires_after(wait);
  pace_timer_.async_wait([alive = alive_](asio::error_code error) {
    PeerRuntime* self = *alive;
    if (error || self == nullptr) return;
    self->pump_due_.reset();
    if (!self->ended_) self->Run();
  });
}

void PeerRuntime::ArmTails() {
  if (std::exchange(tails_armed_, true)) return;
  tail_timer_.expires_after(flow::TailProbe::kTick);
  tail_timer_.async_wait([alive = alive_](asio::error_code error) {
    PeerRuntime* self = *alive;
    if (error || self == nullptr) return;
    self->tails_armed_ = false;
    if (!self->ended_ && self->FollowTails()) self->ArmTails();
  });
}

bool PeerRuntime::FollowTails() {
  bool pending = false;
  for (auto& [other, pair] : pairs_) {
    for (std::size_t i = 0; i < pair.lanes.size(); ++i) {
      net::Lane* const lane = pair.lanes[i].get();
      flow::TailProbe& tail = pair.tails[i];
      if (lane == nullptr) tail = {};
      if (lane != nullptr && lane->idle() && tail.TakeTurn()) {
        const net::TcpTraffic traffic = lane->traffic();
        agreement::Outbound outbound;
        if (tail.OnLooked(traffic.unsent, traffic.sending) && peer_.EmptyFrame(LinkOf(lane->label()), outbound)) {
          (void)lane->Send({.header = outbound.header, .payload = {}, .keep = {}});
        }
      }
      pending = pending || tail.pending();
    }
  }
  return pending;
}

std::size_t PeerRuntime::Give(net::Lane& lane, std::size_t& bytes_left) {
  const std::span<std::byte> scratch = peer_.NeedsScratch() ? lane.codec_scratch() : std::span<std::byte>();
  agreement::Outbound outbound;
  if (!peer_.NextSegment(LinkOf(lane.label()), lane.send_payload_bytes_max(), scratch, outbound)) return 0;
  run_again_ = true;
  const std::size_t bytes = outbound.payload.size() + kSegmentHeaderBytes;
  bytes_left -= std::min(bytes_left, bytes);
  (void)lane.Send({.header = outbound.header, .payload = outbound.payload, .keep = std::move(outbound.keep)});
  return bytes;
}

}  // namespace ringway::daemon
