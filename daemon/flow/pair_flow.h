// Flow control of one pair of peers: which lane takes the next segment and when, how many lanes are of use, which one
// is to be replaced or to look for its rate again. Samples and events go in, decisions come out; the pairs of a host
// share a HostFlow.
//
//   tick:     Look --> (traffic of all lanes) --> Judge --> a verdict   ... of all pairs, then HostFlow::Decide -->
//   Keep segments: Pump --> give(lane) ... until the budget is gone, no lane takes more, or the pair has to wait tails:
//   while tail_pending, every TailProbe::kTick: TakeTailTurn --> (traffic) --> OnTailLooked
//
// Small lanes do not wait for the pace, only count. Where there are no large segments to overtake, on any path of this
// peer, small ones take large lanes, too, and first: those have room for all of them at once, and congestion control
// that has seen the path. Then all keep the pace. A pair within one host has no path: nothing is paced or judged there,
// and all lanes are used.
//
// Pure. Threads: one. Nothing here allocates for a segment.
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

// Which lane of its kind is offered the next segment first, and which kind.
struct Turns {
  std::size_t small = 0;
  std::size_t large = 0;
  bool large_first = false;
};

// Calls `visit(index)` for the lanes that are up and in use: those for small segments, then the first `large` that take
// every size, or the other way round; of each kind from the one whose turn it is, and around. `Lanes`: size() and
// state(index), by value.
template <typename Lanes, typename Visit>
void ForEachUsed(const Lanes& lanes, std::size_t large, const Visit& visit, Turns turns = {}) {
  const auto around = [&](std::size_t begin, std::size_t end, std::size_t first) {
    if (first < begin || first >= end) first = begin;
    for (std::size_t i = first; i < end; ++i) {
      if (lanes.state(i).up) visit(i);
    }
    for (std::size_t i = begin; i < first; ++i) {
      if (lanes.state(i).up) visit(i);
    }
  };
  const std::size_t small = SmallLanes(lanes.size());
  std::size_t end = small;
  for (; end < lanes.size() && large > 0; ++end) large -= lanes.state(end).up ? 1 : 0;
  if (!turns.large_first) around(0, small, turns.small);
  around(small, end, turns.large);
  if (turns.large_first) around(0, small, turns.small);
}

// Offers each idle lane that is in use one segment, in turn: give(index) returns whether it had one for it; where not,
// it has none for other lanes of that kind, and they are not asked. Returns whether any lane got one.
template <typename Lanes, typename Give>
bool GiveRound(const Lanes& lanes, std::size_t large, Turns& turns, const Give& give) {
  bool gave = false;
  bool has_none[2] = {false, false};
  const auto offer = [&](std::size_t i) {
    const LaneState lane = lanes.state(i);
    if (has_none[lane.every_size] || !lane.idle) return;
    if (!give(i)) {
      has_none[lane.every_size] = true;
      return;
    }
    gave = true;
    (lane.every_size ? turns.large : turns.small) = i + 1;
  };
  ForEachUsed(lanes, large, offer, turns);
  return gave;
}

// All lanes of a pair together, at one moment.
PathSample SampleOf(PeerId other, std::span<const LaneState> lanes, std::span<const LaneTraffic> traffic);

class PairFlow {
 public:
  // `host`: outlives this.
  PairFlow(HostFlow* host, PathKey path) : host_(host), path_(path) {}

  void SetWithinHost(bool within) { within_host_ = within; }
  bool within_host() const { return within_host_; }
  // A lane was opened, of so many: what was known of it is of another connection.
  void OnLaneOpened(std::size_t lane, std::size_t lanes);
  void OnLanesClosed() { tails_.clear(); }
  // Lanes that carry large segments, at most.
  std::size_t large_lanes(std::size_t lanes) const { return within_host_ ? lanes : scaler_.used(); }

  // ---- segments
  struct Pumped {
    Duration wait{};          // how long large segments have to wait; 0: they do not
    bool gave_large = false;  // a lane that takes every size was given one
    bool gave_far = false;    // any lane was, and its tail is to be watched
  };
  // `give(lane)` gives the lane its next segment: the bytes with its header, 0 if there is none for it.
  template <typename Lanes, typename Give>
  Pumped Pump(const Lanes& lanes, std::size_t& bytes_left, TimePoint now, const Give& give);
  // Lanes of those that take every size that are to look for their rate again: the pair sends again after a rest.
  std::vector<std::size_t> TakeRestarts(TimePoint now);

  // ---- ticks
  // Whether the lanes are worth a look now, a system call each.
  bool Look(std::span<const LaneState> lanes, TimePoint now);
  struct Replacement {
    std::size_t lane = 0;
    const char* why = "";
  };
  struct Verdict {
    std::optional<PathSample> sample;
    std::vector<std::size_t> renew;  // these look for their rate again
    std::vector<Replacement> replace;
  };
  // `traffic`: of all lanes, at this moment. `waits`: more is to be sent. REQUIRES: Look returned true.
  Verdict Judge(std::span<const LaneState> lanes, std::span<const LaneTraffic> traffic, bool waits, TimePoint now);
  // How many lanes are of use, small ones too; nothing if as many as before.
  std::optional<std::size_t> TakeLanesWanted(TimePoint now);
  // After HostFlow has decided.
  void Keep() { bucket_.SetRate(host_->rate(path_)); }
  // Bytes per second at which a lane may send bursts: not much faster than all together may; 0: no limit.
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
  void OnGiven(std::size_t lane, bool every_size, std::size_t bytes, TimePoint now);

  HostFlow* host_;
  PathKey path_;
  bool within_host_ = false;
  LaneStalls stalls_;
  LaneScaler scaler_;
  LaneHealth health_;
  LaneRenewal renewal_;
  TokenBucket bucket_;
  WaitMeter held_;  // by it
  WaitMeter held_by_uplink_;
  std::vector<TailProbe> tails_;  // by lane
  Turns turns_;
  std::size_t lanes_wanted_ = kLanesRemote;
  TimePoint large_lane_at_{};  // was given something, last
  bool begins_ = false;        // .. after a rest
  bool backlogged_ = false;    // at the last tick
  bool carried_ = false;       // anything since then
  struct {
    bool was_backlogged = false;
    bool held_by_path = false;
    bool held_by_uplink = false;
    bool may_be_busy = false;
    bool held() const { return held_by_path || held_by_uplink; }
  } tick_;  // of Look, for Judge
};

template <typename Lanes, typename Give>
PairFlow::Pumped PairFlow::Pump(const Lanes& lanes, std::size_t& bytes_left, TimePoint now, const Give& give) {
  Pumped out;
  turns_.large_first = host_->IsQuiet(path_.self, now) && !host_->IsNearby(path_);
  const auto offer = [&](std::size_t i) {
    const bool every_size = lanes.state(i).every_size;
    if (!within_host_ && every_size) out.wait = WaitForLarge(now);
    if (out.wait > Duration() && (every_size || turns_.large_first)) return false;
    const std::size_t bytes = give(i);
    if (bytes == 0) return false;
    bytes_left -= std::min(bytes_left, bytes);
    carried_ = true;
    out.gave_large = out.gave_large || every_size;
    if (within_host_) return true;
    out.gave_far = true;
    OnGiven(i, every_size, bytes, now);
    return true;
  };
  // Round after round, so that all carry alike.
  while (bytes_left > 0 && GiveRound(lanes, large_lanes(lanes.size()), turns_, offer)) {
  }
  return out;
}

}  // namespace ringway::flow
