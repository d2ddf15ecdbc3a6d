// Lanes of one pair: which one gets the next segment, which are replaced by fresh connections or reset their congestion
// control, which send a tail probe, and how many are used and wanted (lane_scaler.h). Pure.
//
// Turns. Small lanes take turns, so that loss recovery on one does not delay the next operation. Large lanes are filled
// in order: the next segment goes to the first one that has room. Only a lane that its window limits gets a larger one;
// where all carry their share of what a path takes, none keeps what it has (Linux lowers the window of a connection
// that did not fill it, each retransmission timeout). Lanes that are not needed cost nothing. On a path that loses over
// 0.05% they take turns, too, for each loss delays everything behind it on its lane by a round trip.
//
//   remedy                 trigger
//   replace a small lane   its window is under half of a fresh connection's, it is idle, and the path is far; every
//                          30 s to 5 min
//   replace any lane       over 1 s and 10 round trips of being busy, not receiver-limited for over a quarter of it,
//                          its rate is under 1/16 of the best of any lane, and its share of the traffic is under 1/16
//                          of a busy lane's, or its rate under 1/256 of the best, or all others are idle, waiting
//   reset a large lane     congestion control allows it under 1/4 of the pair's limit; sending lanes one at a time;
//                          every 1 s to 30 s
//   reset in turn          while the pair is paced: a sending lane every 8 s, staggered; an idle one every 4 s
//   reset after a rest     while the pair is paced: all not reset in the last 2 s: the rest may have used up 10 s
//
// Small lanes rarely carry enough for congestion control to learn the path: bbr was seen at two packets a round trip
// for as long as such a lane was watched. After losses a lane may stay at a thousandth of the others' rate for minutes,
// and a ring waits for every segment; each replacement halves the best rate, so that a path that has become slow is not
// replaced for ever. bbr paces a lane at the bandwidth that it has seen on that lane: where many filled a path, each
// has seen its share and stays there; then one segment takes as long as a segment of every lane, and packets leave in
// pairs, which costs three times the CPU. PROBE_RTT, every 10 s while sending, stops a lane for 200 ms, and lanes that
// were started together would all reach it at once: the path runs dry, and overflows afterwards. The pacing rate
// prevents queues already, so no lane needs it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "daemon/flow/lane_scaler.h"
#include "daemon/flow/traffic.h"
#include "proto/clock.h"
#include "proto/lane_roles.h"
#include "proto/lane_traffic.h"

namespace ringway::flow {

// Returns the end of the lanes in use: the small ones and the first `large` large ones that are up. `Lanes`: size() and
// state(index), by value.
template <typename Lanes>
std::size_t EndOfUsed(const Lanes& lanes, std::size_t large) {
  std::size_t end = SmallLanes(lanes.size());
  for (; end < lanes.size() && large > 0; ++end) large -= lanes.state(end).up ? 1 : 0;
  return end;
}

// Calls `visit(index)` for the lanes that are up and in use.
template <typename Lanes, typename Visit>
void ForEachUsed(const Lanes& lanes, std::size_t large, const Visit& visit) {
  const std::size_t end = EndOfUsed(lanes, large);
  for (std::size_t i = 0; i < end; ++i) {
    if (lanes.state(i).up) visit(i);
  }
}

// All lanes of a pair at one moment.
class LaneLook {
 public:
  // `large`: number of large lanes in use, at most. The spans outlive this.
  LaneLook(std::span<const LaneState> states, std::span<const LaneTraffic> traffic, std::size_t large)
      : states_(states), traffic_(traffic), used_end_(EndOfUsed(*this, large)) {}

  std::size_t size() const { return states_.size(); }
  const LaneState& state(std::size_t i) const { return states_[i]; }
  const LaneTraffic& traffic(std::size_t i) const { return traffic_[i]; }
  bool IsLarge(std::size_t i) const { return states_[i].up && states_[i].every_size; }
  bool IsUsedLarge(std::size_t i) const { return i < used_end_ && IsLarge(i); }
  bool IsWriting(std::size_t i) const { return states_[i].up && !states_[i].idle; }
  // A segment is being written, or the kernel has unsent bytes.
  bool IsBusy(std::size_t i) const { return IsWriting(i) || traffic_[i].unsent; }
  // `is_such(index)`
  template <typename IsSuch>
  std::size_t Count(const IsSuch& is_such) const {
    std::size_t count = 0;
    for (std::size_t i = 0; i < size(); ++i) count += is_such(i) ? 1 : 0;
    return count;
  }
  // The shortest of any lane that is up; 0: not known.
  Duration round_trip() const;
  // Bytes that the connections of the large lanes have delivered since they were opened.
  std::uint64_t carried() const;
  // Returns whether there are large lanes in use, and all of them are such.
  template <typename IsSuch>
  bool AreAllUsedLarge(const IsSuch& is_such) const {
    const std::size_t used = Count([&](std::size_t i) { return IsUsedLarge(i); });
    return used > 0 && used == Count([&](std::size_t i) { return IsUsedLarge(i) && is_such(i); });
  }

 private:
  std::span<const LaneState> states_;
  std::span<const LaneTraffic> traffic_;
  std::size_t used_end_;
};

// Exponential backoff between two attempts at the same remedy: the pause doubles if the remedy is needed again within
// four pauses, for then it did not help; otherwise it is reset to the minimum.
class Backoff {
 public:
  struct Bounds {
    Duration min{};
    Duration max{};
  };

  bool IsOver(TimePoint now) const { return now - tried_ >= pause_; }
  void OnTry(const Bounds& bounds, TimePoint now) {
    pause_ = now - tried_ < kSoon * pause_ ? std::min(2 * pause_, bounds.max) : bounds.min;
    tried_ = now;
  }

 private:
  static constexpr int kSoon = 4;  // pauses
  TimePoint tried_{};
  Duration pause_{};
};

// Decides when an idle lane sends empty frames after its last segment, as a tail loss probe.
//
// TCP detects a loss by what arrives after it. Nothing arrives after the last packet, so its loss shows only at a
// timer: after two round trips, and 200 ms more for a lone packet. A ring waits for each of those. Up to three empty
// frames, one a tick, reveal the loss within one round trip.
//
//   OnSegment --> a tick without a segment: look --> not sent yet: look again
//       ^                                       +--> sent, not acknowledged: send an empty frame; done after three
//       +--any time                             +--> acknowledged: done
class TailProbe {
 public:
  static constexpr Duration kTick = std::chrono::milliseconds(10);

  void OnSegment() {
    frames_left_ = kFrames;
    fresh_ = true;
  }
  // At a tick: returns whether to look at the lane now.
  bool TakeTurn() { return frames_left_ > 0 && !std::exchange(fresh_, false); }
  // Takes what the look showed; returns whether to send an empty frame now.
  bool OnLooked(bool unsent, bool unacknowledged) {
    if (unsent) return false;
    frames_left_ = unacknowledged ? frames_left_ - 1 : 0;
    return unacknowledged;
  }
  // Returns whether another tick is needed.
  bool pending() const { return frames_left_ > 0; }

 private:
  static constexpr int kFrames = 3;
  int frames_left_ = 0;
  bool fresh_ = false;
};

class LaneSet {
 public:
  // Lane `lane` of `lanes` was opened: its tail probe starts afresh.
  void OnOpened(std::size_t lane, std::size_t lanes);
  void OnClosed(std::size_t lane);
  void OnAllClosed();
  // Large lanes to use, at most.
  std::size_t used() const { return scaler_.used(); }
  // Returns whether more lanes would carry little more, as far as is known.
  bool is_enough() const { return scaler_.is_enough(); }
  // Returns the number of lanes to have open, small ones included; nothing if it is unchanged.
  std::optional<std::size_t> TakeWanted(TimePoint now);

  // ---- segments
  // Offers segments to the first `large` large lanes and to the small ones, which are offered theirs before the large
  // ones or, if `small_last`, after. `offer(index, every_size)` returns whether the lane got a segment; if not, there
  // is none for lanes of its kind, or it has to wait. Returns after a round in which `is_done()`, or nobody got any.
  template <typename Lanes, typename Offer, typename IsDone>
  void Serve(const Lanes& lanes, std::size_t large, bool small_last, const Offer& offer, const IsDone& is_done);
  void OnSegment(std::size_t lane) {
    if (lane < lanes_.size()) lanes_[lane].tail.OnSegment();
  }

  // ---- ticks
  struct Replacement {
    std::size_t lane = 0;
    const char* why = "";
  };
  struct Remedies {
    std::vector<std::size_t> renew;  // these reset their congestion control
    std::vector<Replacement> replace;
  };
  using Demand = LaneScaler::Demand;
  // Returns what all lanes together have moved since the last look: an opened lane's counters start at zero.
  Traffic TakeTraffic(const LaneLook& look);
  // To be called every tick while the pair is busy. `tick`: what TakeTraffic returned for this look.
  Remedies Judge(const LaneLook& look, const Traffic& tick, const Demand& demand, TimePoint now);
  // Returns the lanes that are to be reset when the pair sends again after a rest.
  std::vector<std::size_t> AfterRest(double pace, TimePoint now);

  // ---- tails, while one is pending: every TailProbe::kTick
  bool tail_pending() const {
    return std::any_of(lanes_.begin(), lanes_.end(), [](const Lane& lane) { return lane.tail.pending(); });
  }
  // Returns whether to look at an idle lane now.
  bool TakeTailTurn(std::size_t lane) { return lane < lanes_.size() && lanes_[lane].tail.TakeTurn(); }
  // Returns whether the lane is to be given an empty frame.
  bool OnTailLooked(std::size_t lane, const LaneTraffic& traffic) {
    return lanes_[lane].tail.OnLooked(traffic.unsent, traffic.sending);
  }

 private:
  struct Lane {
    TailProbe tail;
    LaneTraffic last;  // at the last look; zero since it was opened
    Traffic tick;      // up to that look
    BusyWindow window;
    double share = 0;                   // of the pair's traffic, smoothed
    std::optional<TimePoint> reset_at;  // or since when it is watched
    Backoff reset_pause;
    Backoff replace_pause;
  };

  void Fit(std::size_t lanes);
  void NoteLosses(const Traffic& tick);
  std::optional<std::size_t> FindUnhealthy(const LaneLook& look, TimePoint now);
  std::vector<std::size_t> FindSlow(const LaneLook& look, double pace, TimePoint now);
  void TakeTurn(const LaneLook& look, TimePoint now, std::vector<std::size_t>& out);
  std::optional<std::size_t> FindStalled(const LaneLook& look, const Traffic& tick, TimePoint now);
  void UpdateShares(const Traffic& tick);

  std::vector<Lane> lanes_;
  LaneScaler scaler_;
  std::size_t wanted_ = kLanesRemote;
  TimePoint last_turn_{};                // when a sending lane was reset in turn
  double best_ = 0;                      // rate of any lane so far, in bytes per second
  std::optional<TimePoint> watched_at_;  // when stalled lanes were looked for last, if these lanes were
  std::size_t next_small_ = 0;           // the lane of each kind that is offered the next segment first
  std::size_t next_large_ = 0;
  // Whether recent traffic was resent so often that a segment is likely to wait for a lost one.
  struct {
    double delivered = 0, resent = 0;  // bytes, lately
    bool is_high = false;
  } loss_;
};

template <typename Lanes, typename Offer, typename IsDone>
void LaneSet::Serve(const Lanes& lanes, std::size_t large, bool small_last, const Offer& offer, const IsDone& is_done) {
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
  const std::size_t end = EndOfUsed(lanes, large);
  const bool in_order = !loss_.is_high;
  if (in_order) next_large_ = small;
  bool gave = true;
  while (gave && !is_done()) {
    const bool gave_small = !small_last && serve(0, small, next_small_, false);
    const bool gave_large = serve(small, end, next_large_, in_order);
    gave = (small_last && serve(0, small, next_small_, false)) || gave_small || gave_large;
  }
}

}  // namespace ringway::flow
