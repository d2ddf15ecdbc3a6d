// Flow control of one pair of peers: its lanes (lane_set.h) under its rate limit and the uplink's. The pairs of a host
// share a HostFlow. Pure: samples and events go in, decisions come out.
//
//   tick:     Look --> (read traffic of all lanes) --> Judge --> verdict   ... of all pairs, then
//             HostFlow::Decide --> Pacer::Adopt
//   segments: Pump --> give(lane) ... until the budget is spent, no lane takes more, or the pair has to wait
//
// While no path of this peer carries large segments, there is nothing to overtake: small segments then prefer the large
// lanes, which have room for all of them at once and a congestion window that fits the path; all of them are paced
// then. A pair within one host has no path: nothing is paced or judged, and all lanes are used.
//
// Threads: one. Nothing here allocates for a segment.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "daemon/flow/host_flow.h"
#include "daemon/flow/lane_set.h"
#include "daemon/flow/pacing.h"
#include "daemon/flow/traffic.h"
#include "proto/clock.h"
#include "proto/lane_roles.h"
#include "proto/lane_traffic.h"
#include "proto/segment_header.h"

namespace ringway::flow {

// What a pair may send, and when: by the rate of its path, and by that of the uplink, which the pairs of a host share.
// Small-lane traffic waits for neither but is charged to both; so are TCP's retransmissions.
class Pacer {
 public:
  // `host`: outlives this.
  Pacer(HostFlow* host, PathKey path) : host_(host), path_(path) {}

  // Returns how long the next large segment has to wait; 0 if it may be sent.
  Duration Wait(TimePoint now);
  // `bypasses`: it was given to a small lane.
  void OnSent(std::size_t bytes, bool bypasses, TimePoint now);
  void OnResent(double bytes);
  // Returns the bytes that were sent since the last call.
  double TakeSent() { return std::exchange(sent_, 0); }
  // Which rate segments waited for over half of the time since the last call.
  struct Held {
    bool by_path = false;
    bool by_uplink = false;
    bool any() const { return by_path || by_uplink; }
  };
  Held TakeHeld(TimePoint now);

  // Adopts the path's rate after HostFlow::Decide.
  void Adopt() { bucket_.SetRate(host_->rate(path_)); }
  // The pair's limit in bytes per second, or the uplink's where the path has none; 0: unlimited.
  double limit() const { return host_->limit(path_); }
  // Bytes per second for one lane's own pacing (SO_MAX_PACING_RATE): somewhat above the limit; 0: unlimited.
  double BurstLimit(bool every_size) const;
  // Returns whether the path is far, and none of its peer's carries large segments.
  bool IsQuiet(TimePoint now) const { return host_->IsQuiet(path_.self, now) && !host_->IsNearby(path_); }

 private:
  HostFlow* host_;
  PathKey path_;
  TokenBucket bucket_;
  WaitMeter held_;  // by bucket_
  WaitMeter held_by_uplink_;
  double sent_ = 0;  // bytes
};

class PairFlow {
 public:
  // `host`: outlives this.
  PairFlow(HostFlow* host, PathKey path) : other_(path.other), pacer_(host, path) {}

  void SetWithinHost(bool within) { within_host_ = within; }
  bool within_host() const { return within_host_; }
  LaneSet& lanes() { return lanes_; }
  Pacer& pacer() { return pacer_; }
  // Lanes that carry large segments, at most.
  std::size_t large_lanes(std::size_t lanes) const { return within_host_ ? lanes : lanes_.used(); }

  // ---- segments
  struct Pumped {
    Duration wait{};          // how long large segments have to wait; 0: they do not
    bool gave_large = false;  // to a large lane
    bool gave_far = false;    // to any lane between hosts; its tail is to be watched
  };
  // `give(lane)` sends the lane's next segment; returns its bytes with the header, 0 if there is none for that lane.
  template <typename Lanes, typename Give>
  Pumped Pump(const Lanes& lanes, std::size_t& bytes_left, TimePoint now, const Give& give);
  // Large lanes that are to reset their congestion control, because the pair sends again after a rest.
  std::vector<std::size_t> TakeRestarts(TimePoint now);

  // ---- ticks
  // Returns whether to read the lanes' traffic now, which costs a system call each.
  bool Look(std::span<const LaneState> lanes, TimePoint now);
  struct Verdict : LaneSet::Remedies {
    std::optional<PathSample> sample;
  };
  // `traffic`: of all lanes, now. `waits`: segments are queued. REQUIRES: Look returned true.
  Verdict Judge(std::span<const LaneState> lanes, std::span<const LaneTraffic> traffic, bool waits, TimePoint now);
  // Number of lanes wanted, small ones included; nothing if it is unchanged.
  std::optional<std::size_t> TakeLanesWanted(TimePoint now) {
    return within_host_ ? std::nullopt : lanes_.TakeWanted(now);
  }

 private:
  void OnGiven(std::size_t lane, bool every_size, std::size_t bytes, TimePoint now);

  PeerId other_;
  bool within_host_ = false;
  LaneSet lanes_;
  Pacer pacer_;
  TimePoint large_lane_at_{};  // when a large lane was last given a segment
  bool resumed_after_rest_ = false;
  bool backlogged_ = false;              // at the last tick
  bool carried_ = false;                 // anything since then
  std::optional<TimePoint> sampled_at_;  // nothing: not at this tick
  struct {
    bool was_backlogged = false;
    Pacer::Held held;
    bool may_be_busy = false;
    std::optional<TimePoint> sampled_at;  // the tick before
  } tick_;                                // from Look to Judge
};

template <typename Lanes, typename Give>
PairFlow::Pumped PairFlow::Pump(const Lanes& lanes, std::size_t& bytes_left, TimePoint now, const Give& give) {
  Pumped out;
  const bool quiet = pacer_.IsQuiet(now);
  // Returns whether the lane got a segment; if not, there is none for lanes of its kind, or it has to wait.
  const auto offer = [&](std::size_t i, bool every_size) {
    if (!within_host_ && every_size) out.wait = pacer_.Wait(now);
    if (out.wait > Duration() && (every_size || quiet)) return false;
    const std::size_t bytes = give(i);
    if (bytes == 0) return false;
    bytes_left -= std::min(bytes_left, bytes);
    carried_ = true;
    out.gave_large = out.gave_large || every_size;
    out.gave_far = !within_host_;
    if (!within_host_) OnGiven(i, every_size, bytes, now);
    return true;
  };
  lanes_.Serve(lanes, large_lanes(lanes.size()), quiet, offer, [&] { return bytes_left == 0; });
  return out;
}

}  // namespace ringway::flow
