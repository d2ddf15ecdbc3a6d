// Rate of a byte counter, measured only while its mover is the bottleneck. Pure.
//
//   idle --Begin--> window --Extend, long enough--> measurement; the next window starts
//             ^          |
//             +--Break---+   returns a lower bound
//
// A rate is settled if it is at most a quarter above the previous window's; before that a congestion window may still
// be growing. A settled rate is the mean of both windows, which halves the error of one that was compressed or filled a
// queue. It is steady if it is also at most a quarter below: after a burst of losses lanes stall for a while and are
// slower than the path.
#pragma once

#include <cstdint>
#include <optional>

#include "proto/clock.h"

namespace ringway::flow {

// Rates, or round trips, within this ratio count as equal.
inline constexpr double kSameRateRatio = 1.25;

class RateWindow {
 public:
  struct Measurement {
    double bytes_per_second = 0;
    bool settled = false;  // else a lower bound
    bool steady = false;   // settled, and not falling
  };

  bool running() const { return start_.has_value(); }
  // REQUIRES: running().
  TimePoint start() const { return start_->time; }

  // `bytes`: a monotonic counter. Restarts if running.
  void Begin(TimePoint now, std::uint64_t bytes);
  // REQUIRES: running(). Returns a measurement once the window has lasted for `length`.
  std::optional<Measurement> Extend(TimePoint now, std::uint64_t bytes, Duration length);
  // The mover is no longer the bottleneck, or the counter was replaced. Returns the rate of the unfinished window, a
  // lower bound, if it lasted for at least 20 ms.
  std::optional<Measurement> Break(TimePoint now, std::uint64_t bytes);
  // Windows since Begin without one that was over a tenth faster than all before it.
  int flat() const { return flat_; }

 private:
  static constexpr Duration kShortest = std::chrono::milliseconds(20);

  struct Mark {
    TimePoint time;
    std::uint64_t bytes = 0;
  };
  // Bytes per second since the start.
  double RateAt(const Mark& mark) const;

  std::optional<Mark> start_;
  std::optional<double> before_;  // of the window before
  double best_ = 0;
  int flat_ = 0;
};

}  // namespace ringway::flow
