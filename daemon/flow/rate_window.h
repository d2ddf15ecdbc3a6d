// The rate of something that moves bytes, measured only where it moves as many as it can. Pure.
//
//   broken --Begin--> window --Extend, long enough--> measurement, the next window begins
//             ^          |
//             +--Break---+   what was moved until then says "at least this much"
//
// A rate is settled when it is at most a quarter above that of the window before: until then a congestion window is
// still growing. A settled rate is the mean of the two windows, so that one that was squeezed or filled a queue counts
// half. It is steady when it is not much below either: lanes that lost what they had under way all at once stall for a
// while, and are slower than the path then.
#pragma once

#include <cstdint>
#include <optional>

#include "proto/clock.h"

namespace ringway::flow {

// Rates that differ by no more than this are taken for the same; round trips, too.
inline constexpr double kSameRateRatio = 1.25;

class RateWindow {
 public:
  struct Measurement {
    double bytes_per_second = 0;
    bool settled = false;  // else the rate may be higher
    bool steady = false;   // settled, and not falling
  };

  bool running() const { return start_.has_value(); }
  // When it began, if it runs.
  TimePoint start() const { return start_->time; }

  // `bytes`: a counter that only grows. Starts over if it runs. A window lasts for `length`.
  void Begin(TimePoint now, std::uint64_t bytes);
  // REQUIRES: it runs. Gives a measurement if the window is full.
  std::optional<Measurement> Extend(TimePoint now, std::uint64_t bytes, Duration length);
  // It moves less than it could, or another counter counts. Gives what came of the last window, if it lasted for long
  // enough to say anything.
  std::optional<Measurement> Break(TimePoint now, std::uint64_t bytes);

 private:
  static constexpr Duration kShortest = std::chrono::milliseconds(20);

  struct Mark {
    TimePoint time;
    std::uint64_t bytes = 0;
  };
  // Bytes a second since the start.
  double RateAt(const Mark& mark) const;

  std::optional<Mark> start_;
  std::optional<double> before_;  // of the window before
};

}  // namespace ringway::flow
