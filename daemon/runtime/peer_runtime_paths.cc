// The part of a PeerRuntime that schedules sends over its pairs and measures their paths.
#include <algorithm>
#include <utility>

#include "daemon/flow/lane_set.h"
#include "daemon/runtime/peer_runtime.h"
#include "proto/mutation.h"

namespace ringway::daemon {

void PeerRuntime::SamplePaths(TimePoint now) {
  if (ended_) return;
  const std::vector<PeerId> waiting = peer_.PeersWithWork();
  std::vector<flow::PathSample> samples;
  std::vector<std::pair<links::LinkId, const char*>> replaced;
  std::vector<std::pair<PeerId, std::size_t>> wanted;
  for (auto& [other, pair] : pairs_) {
    const bool waits = std::find(waiting.begin(), waiting.end(), other) != waiting.end();
    const flow::PairFlow::Verdict verdict = pair.Sample(waits, now);
    if (verdict.sample) {
      samples.push_back(*verdict.sample);
      samples.back().bandwidth = sink_->flow().TakeBandwidth({.self = options_.self, .other = other});
    }
    for (const auto& [lane, why] : verdict.replace) {
      replaced.emplace_back(LaneOf(other, LaneId(static_cast<std::uint32_t>(lane))), why);
    }
    if (const auto lanes = pair.TakeLanesWanted(now)) wanted.emplace_back(other, *lanes);
  }
  for (const flow::PathSample& sample : samples) sink_->flow().Add(options_.self, sample);
  for (const auto& [lane, why] : replaced) {
    if (!RINGWAY_MUTANT(kKeepStalledLane)) GiveUp(lane, why);
  }
  for (const auto& [other, lanes] : wanted) peer_.WantLanes(other, static_cast<std::uint32_t>(lanes), now);
  if (!samples.empty()) peer_.OnPathSamples(samples, sink_->flow().UplinkBandwidth(), now);
  if (!samples.empty() || !wanted.empty()) Run();
}

void PeerRuntime::GiveUp(const links::LinkId& lane, const char* why) {
  const auto found = pairs_.find(lane.other);
  if (found != pairs_.end() && found->second.CloseLane(lane.lane)) OnLaneClosed(lane, why);
}

void PeerRuntime::KeepPace() {
  for (auto& [other, pair] : pairs_) pair.Keep();
}

bool PeerRuntime::Pump() {
  std::size_t bytes_left = kPumpBytes;
  Duration soonest = Duration::max();
  bool tails = false;
  std::vector<PeerId> order = peer_.PeersWithWork();
  const auto last = std::find(order.begin(), order.end(), last_given_);
  if (last != order.end()) std::rotate(order.begin(), last + 1, order.end());
  for (const PeerId to : order) {
    const auto found = pairs_.find(to);
    if (found == pairs_.end()) continue;
    const TimePoint now = clock_.Now();
    const auto pumped = found->second.Pump(bytes_left, now, [&](net::Lane& lane) { return Give(lane, now); });
    if (pumped.gave_large) last_given_ = to;
    if (pumped.wait > Duration()) soonest = std::min(soonest, pumped.wait);
    tails = tails || pumped.gave_far;
  }
  if (tails) ArmTails();
  if (soonest != Duration::max()) PumpIn(soonest);
  return bytes_left == 0;
}

// Keeps the earliest time that any pair has asked for.
void PeerRuntime::PumpIn(Duration wait) {
  const TimePoint due = clock_.Now() + wait;
  if (pump_due_ && *pump_due_ <= due) return;
  pump_due_ = due;
  pace_timer_.At(due, [this] {
    pump_due_.reset();
    if (!ended_) Run();
  });
}

void PeerRuntime::ArmTails() {
  if (std::exchange(tails_armed_, true)) return;
  tail_timer_.After(flow::TailProbe::kTick, [this] {
    tails_armed_ = false;
    if (!ended_ && FollowTails()) ArmTails();
  });
}

bool PeerRuntime::FollowTails() {
  bool pending = false;
  const auto send_empty = [this](net::Lane& lane) {
    links::Outbound outbound;
    if (peer_.EmptyFrame(lane.label().link, outbound)) (void)lane.Send(std::move(outbound));
  };
  for (auto& [other, pair] : pairs_) pending = pair.FollowTails(send_empty) || pending;
  return pending;
}

std::size_t PeerRuntime::Give(net::Lane& lane, TimePoint now) {
  const std::span<std::byte> scratch = peer_.NeedsScratch() ? lane.codec_scratch() : std::span<std::byte>();
  links::Outbound outbound;
  if (!peer_.NextSegment(lane.label().link, lane.send_payload_bytes_max(), scratch, outbound)) return 0;
  flight_.OnSent(lane.label().link.other, outbound, now);
  run_again_ = true;
  const std::size_t bytes = outbound.payload.size() + kSegmentHeaderBytes;
  (void)lane.Send(std::move(outbound));
  return bytes;
}

}  // namespace ringway::daemon
