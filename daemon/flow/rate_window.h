// Traffic of a mover (a lane, the lanes of a pair, all pairs of a host), measured in windows of time during which it is
// the bottleneck. Pure.
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

namespace ringway::flow {

// Rates, or round trips, within this ratio count as equal.
inline constexpr double kSameRateRatio = 1.25;

class BusyWindow {
 public:
  // From one look to the next.
  struct Tick {
    double given = 0;  // bytes, to the lanes
    double delivered = 0;
    double resent = 0;
    Duration receiver_limited{};
    Duration queueing{};  // at its end
    Duration standing{};
    bool held = false;  // pace-limited
    bool alone = true;  // no other path was backlogged
  };
  struct Totals {
    Tick sum;  // `alone`: in all ticks
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
  std::optional<Totals> Extend(TimePoint now, const Tick& tick, Duration length, Duration lead = {});
  // The mover is not the bottleneck; the window continues when it is again, after another lead.
  void Pause() { busy_since_ = last_ = std::nullopt; }
  // Likewise, but the window is discarded.
  void Break() { *this = {}; }

 private:
  std::optional<TimePoint> busy_since_;
  std::optional<TimePoint> last_;  // end of the last tick that counted
  Totals totals_;
};

// Rate of a byte counter. A rate is settled if it is at most a quarter above the previous window's; before that a
// congestion window may still be growing. A settled rate is the mean of both windows, which halves the error of one
// that was compressed or filled a queue. It is steady if it is also at most a quarter below: after a burst of losses
// lanes stall for a while and are slower than the path.
class RateWindow {
 public:
  struct Measurement {
    double bytes_per_second = 0;
    bool settled = false;  // else a lower bound
    bool steady = false;   // settled, and not falling
  };

  bool running() const { return window_.running(); }
  // `bytes`: a monotonic counter. Restarts if running.
  void Begin(TimePoint now, std::uint64_t bytes);
  // REQUIRES: running(). Returns a measurement once the window has lasted for `length`.
  std::optional<Measurement> Extend(TimePoint now, std::uint64_t bytes, Duration length);
  // The mover is no longer the bottleneck, or the counter was replaced. Returns the rate of the unfinished window, a
  // lower bound, if it lasted for at least 20 ms.
  std::optional<Measurement> Break(TimePoint now, std::uint64_t bytes);
  // Windows since Begin without one that was over a tenth faster than all before it.
  int flat() const { return flat_; }
  // The fastest of them, in bytes per second, but for growth of less than a tenth; 0: none.
  double best() const { return best_; }

 private:
  // Returns the rate of the window if it has lasted for `length`.
  std::optional<double> Rate(TimePoint now, std::uint64_t bytes, Duration length);

  BusyWindow window_;
  std::uint64_t bytes_ = 0;       // at the last look
  std::optional<double> before_;  // of the window before
  double best_ = 0;
  int flat_ = 0;
};

}  // namespace ringway::flow
