// Flow control of one pair of peers: which lane gets the next segment and when, how many lanes are wanted, which one is
// to be replaced or to reset its congestion control. The pairs of a host share a HostFlow. Pure: samples and events go
// in, decisions come out.
//
//   tick:     Look --> (read traffic of all lanes) --> Judge --> verdict   ... of all pairs, then
//             HostFlow::Decide --> Keep
//   segments: Pump --> give(lane) ... until the budget is spent, no lane takes more, or the pair has to wait
//   tails:    while tail_pending, every TailProbe::kTick: TakeTailTurn --> (read traffic) --> OnTailLooked
//
// Small lanes take turns, so that loss recovery on one does not delay the next operation. Large lanes are filled in
// order: the next segment goes to the first one that has room. Only a lane that its window limits gets a larger one;
// where all carry their share of what a path takes, none keeps what it has (Linux lowers the window of a connection
// that did not fill it, each retransmission timeout). Lanes that are not needed cost nothing. On a path that loses over
// 0.05% they take turns, too, for each loss delays everything behind it on its lane by a round trip.
//
// Small-lane traffic bypasses the token bucket but is charged to it. While no path of this peer carries large segments,
// there is nothing to overtake: small segments then prefer the large lanes, which have room for all of them at once and
// a congestion window that fits the path; all of them are paced then. A pair within one host has no path: nothing is
// paced or judged, and all lanes are used.
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
#include "daemon/flow/lane_health.h"
#include "daemon/flow/lane_renewal.h"
#include "daemon/flow/lane_scaler.h"
#include "daemon/flow/lane_stalls.h"
#include "daemon/flow/path_estimator.h"
#include "daemon/flow/tail_probe.h"
#include "daemon/flow/token_bucket.h"
#include "proto/clock.h"
#include "proto/lane_roles.h"
#include "proto/lane_traffic.h"
#include "proto/segment_header.h"

namespace ringway::flow {

// Returns the end of the lanes in use: the small ones and the first `large` large ones that are up.
template <typename Lanes>
std::size_t EndOfUsed(const Lanes& lanes, std::size_t large) {
  std::size_t end = SmallLanes(lanes.size());
  for (; end < lanes.size() && large > 0; ++end) large -= lanes.state(end).up ? 1 : 0;
  return end;
}

// Calls `visit(index)` for the lanes that are up and in use. `Lanes`: size() and state(index), by value.
template <typename Lanes, typename Visit>
void ForEachUsed(const Lanes& lanes, std::size_t large, const Visit& visit) {
  const std::size_t end = EndOfUsed(lanes, large);
  for (std::size_t i = 0; i < end; ++i) {
    if (lanes.state(i).up) visit(i);
  }
}

// Whether recent traffic was retransmitted so often that a segment is likely to wait for a lost one.
class RecentLoss {
 public:
  // Totals of the pair's lanes; where they fall, lanes were replaced. Returns what was resent since the last call.
  std::uint64_t Add(std::uint64_t delivered_bytes, std::uint64_t resent_bytes);
  bool is_high() const { return is_high_; }

 private:
  std::uint64_t delivered_ = 0, resent_ = 0;  // at the last look
  double recent_ = 0, recent_resent_ = 0;
  bool is_high_ = false;
};

// Returns the sum over all lanes of a pair, at one moment.
PathSample SampleOf(PeerId other, std::span<const LaneState> lanes, std::span<const LaneTraffic> traffic);

class PairFlow {
 public:
  // `host`: outlives this.
  PairFlow(HostFlow* host, PathKey path) : host_(host), path_(path) {}

  void SetWithinHost(bool within) { within_host_ = within; }
  bool within_host() const { return within_host_; }
  // Lane `lane` of `lanes` was opened: its tail probe starts afresh.
  void OnLaneOpened(std::size_t lane, std::size_t lanes);
  void OnLanesClosed() { tails_.clear(); }
  // Lanes that carry large segments, at most.
  std::size_t large_lanes(std::size_t lanes) const { return within_host_ ? lanes : scaler_.used(); }

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
  struct Replacement {
    std::size_t lane = 0;
    const char* why = "";
  };
  struct Verdict {
    std::optional<PathSample> sample;
    std::vector<std::size_t> renew;  // these reset their congestion control
    std::vector<Replacement> replace;
  };
  // `traffic`: of all lanes, now. `waits`: segments are queued. REQUIRES: Look returned true.
  Verdict Judge(std::span<const LaneState> lanes, std::span<const LaneTraffic> traffic, bool waits, TimePoint now);
  // Number of lanes wanted, small ones included; nothing if it is unchanged.
  std::optional<std::size_t> TakeLanesWanted(TimePoint now);
  // Adopts the rate after HostFlow::Decide.
  void Keep() { bucket_.SetRate(host_->rate(path_)); }
  // The pair's limit in bytes per second, or the uplink's where the path has none; 0: unlimited.
  double rate_limit() const { return host_->limit(path_); }
  // Bytes per second for one lane's own pacing (SO_MAX_PACING_RATE): somewhat above the pair's limit; 0: unlimited.
  double BurstLimit(bool every_size) const;

  // ---- tails
  bool TakeTailTurn(std::size_t lane) { return lane < tails_.size() && tails_[lane].TakeTurn(); }
  // Returns whether the lane is to be given an empty frame.
  bool OnTailLooked(std::size_t lane, const LaneTraffic& traffic) {
    return tails_[lane].OnLooked(traffic.unsent, traffic.sending);
  }
  bool tail_pending() const {
    return std::any_of(tails_.begin(), tails_.end(), [](const TailProbe& tail) { return tail.pending(); });
  }
  void ForgetTail(std::size_t lane) {
    if (lane < tails_.size()) tails_[lane] = {};
  }

 private:
  Duration WaitForLarge(TimePoint now);
  // Retransmissions take the path's rate, too.
  void ChargeResent(double bytes);
  void OnGiven(std::size_t lane, bool every_size, std::size_t bytes, TimePoint now);

  HostFlow* host_;
  PathKey path_;
  bool within_host_ = false;
  LaneStalls stalls_;
  LaneScaler scaler_;
  LaneHealth health_;
  LaneRenewal renewal_;
  TokenBucket bucket_;
  WaitMeter held_;  // by bucket_
  WaitMeter held_by_uplink_;
  std::vector<TailProbe> tails_;  // by lane
  std::size_t next_small_ = 0;    // the lane of each kind that is offered the next segment first
  std::size_t next_large_ = 0;
  RecentLoss loss_;
  std::size_t lanes_wanted_ = kLanesRemote;
  TimePoint large_lane_at_{};  // when a large lane was last given a segment
  bool resumed_after_rest_ = false;
  bool backlogged_ = false;  // at the last tick
  bool carried_ = false;     // anything since then
  std::uint64_t given_bytes_ = 0;
  struct {
    bool was_backlogged = false;
    bool held_by_path = false;
    bool held_by_uplink = false;
    bool may_be_busy = false;
    bool held() const { return held_by_path || held_by_uplink; }
  } tick_;  // from Look to Judge
};

template <typename Lanes, typename Give>
PairFlow::Pumped PairFlow::Pump(const Lanes& lanes, std::size_t& bytes_left, TimePoint now, const Give& give) {
  Pumped out;
  const bool quiet = host_->IsQuiet(path_.self, now) && !host_->IsNearby(path_);
  // Returns whether the lane got a segment; if not, there is none for lanes of its kind, or it has to wait.
  const auto offer = [&](std::size_t i, bool every_size) {
    if (!within_host_ && every_size) out.wait = WaitForLarge(now);
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
  // The lanes from `begin` to `end` take as many segments as they are, at most: in turn from `next` on, or each as many
  // as it has room for. Returns whether any got one.
  const auto serve = [&](std::size_t begin, std::size_t end, std::size_t& next, bool fill) {
    std::size_t given = 0;
    for (std::size_t busy = 0; begin + busy < end && begin + given < end;) {
      if (next < begin || next >= end) next = begin;
      const LaneState lane = lanes.state(next);
      const bool has_room = lane.up && lane.idle;
      if (has_room && !offer(next, lane.every_size)) break;
      given += has_room ? 1 : 0;
      busy = has_room ? 0 : busy + 1;
      if (!has_room || !fill) ++next;
    }
    return given > 0;
  };
  const std::size_t small = SmallLanes(lanes.size());
  const std::size_t end = EndOfUsed(lanes, large_lanes(lanes.size()));
  const bool in_order = !loss_.is_high();
  if (in_order) next_large_ = small;
  bool gave = true;
  while (gave && bytes_left > 0) {
    const bool gave_small = !quiet && serve(0, small, next_small_, false);
    const bool gave_large = serve(small, end, next_large_, in_order);
    gave = (quiet && serve(0, small, next_small_, false)) || gave_small || gave_large;
  }
  return out;
}

}  // namespace ringway::flow
