// Traffic of a mover (a lane, the lanes of a pair, all pairs of a host): of one tick, and in windows of time during
// which the mover is the bottleneck. Pure.
//
// LaneSet counts what each lane and its pair has moved in a tick; whoever judges lanes, paths or the uplink adds that
// up.
//
//   idle --Extend--> lead --it is over--> window --Extend, long enough--> totals; the next window starts
//    ^                ^                   |   |
//    |                +--Extend--paused<--+   |
//    +--Break---------------------------------+
//
// The ticks of the lead do not count: nothing sent in it can have been acknowledged.
#pragma once

#include <cstdint>
#include <optional>

#include "proto/clock.h"
#include "proto/ids.h"

namespace ringway::flow {

// From one look to the next.
struct Traffic {
  double given = 0;      // bytes, to the lanes
  double delivered = 0;  // acknowledged
  double resent = 0;
  Duration receiver_limited{};  // time limited by the receive window; summed over lanes
  Duration queueing{};          // queueing delay at its end: mean over the lanes that send
  Duration standing{};          // the part of it that jitter does not explain
  bool held = false;            // pace-limited by the mover's own limit
  bool alone = true;            // no other path was backlogged
  bool app_limited = false;     // something else may have been the bottleneck (path_model.h)
};

// An estimate of a path's or an uplink's bandwidth (path_model.h).
struct Bandwidth {
  double bytes_per_second = 0;  // 0: nothing
  bool is_measured = false;     // else it is a lower bound
};

// All lanes of a pair in one tick.
struct PathSample {
  PeerId other;
  Traffic traffic;
  bool backlogged = false;        // more is queued than the lanes take or the rate limits allow
  bool unsent = false;            // the lanes took all, and congestion control still holds some of it back
  bool receiver_limited = false;  // for over a quarter of the tick
  bool held_by_uplink = false;    // pace-limited by the host's uplink
  bool lanes_are_enough = false;  // more lanes would carry no more, as far as is known
  Duration round_trip{};          // minimum; 0: not known
  std::uint64_t carried = 0;      // bytes that its connections have delivered, since they were opened
  Bandwidth bandwidth{};          // if it was measured since the last sample
};

class BusyWindow {
 public:
  struct Totals {
    Traffic sum;  // `alone`: in all ticks; `app_limited`: in any
    Duration lasted{};
    int ticks = 0;
    int held_ticks = 0;

    double PerSecond(double bytes) const { return bytes / std::chrono::duration<double>(lasted).count(); }
    // Returns whether it was pace-limited for the most part.
    bool held() const { return 2 * held_ticks > ticks; }
  };

  bool running() const { return busy_since_.has_value(); }
  // The mover is the bottleneck, and was since the last call unless the window starts with this one. Returns the window
  // once it has lasted for `length`.
  std::optional<Totals> Extend(TimePoint now, const Traffic& tick, Duration length, Duration lead = {});
  // The mover was the bottleneck in a part of this tick, at least, and is not now. Returns what the window has, this
  // tick included, if it lasted for `least`.
  std::optional<Totals> Unfinished(TimePoint now, const Traffic& tick, Duration least) const;
  // The mover is not the bottleneck; the window continues when it is again, after another lead.
  void Pause() { busy_since_ = last_ = std::nullopt; }
  // Likewise, but the window is discarded.
  void Break() { *this = {}; }

 private:
  std::optional<TimePoint> busy_since_;
  std::optional<TimePoint> last_;  // end of the last tick that counted
  Totals totals_;
};

}  // namespace ringway::flow
