// How many of a pair's lanes carry large segments: few while few fill the path, because unpaced lanes overdrive it
// together; more where each is bound by its window or by losses, or where all are held to a pace (pace.h): then more do
// no harm, and one that is held up matters less. Pure.
//
//   settled --its rate is steady--> trial: half as many more
//      ^                              |   |
//      +--5% faster: so it stays------+   |
//      +--else as before; no trial for----+
//         10 s, 20 s, 40 s ..
//
// Judged by windows of 0.5 s, and five round trips, in which the lanes were the limit all the time. The first two of a
// trial do not count: fresh connections have to find their rate.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "proto/clock.h"

namespace ringway::core {

class LaneCount {
 public:
  // Large lanes that are used from the start, and at least while they keep a pace.
  static constexpr std::size_t kFirst = 4;
  static constexpr std::size_t kPaced = 8;

  // All of a pair at one moment. `delivered_bytes` only grows, or lanes were replaced.
  struct Sample {
    bool backlogged = false;  // more waits than the lanes take
    bool paced = false;
    std::size_t lanes = 0;  // large ones that there are
    std::uint64_t delivered_bytes = 0;
    Duration round_trip{};
  };
  void Add(const Sample& sample, TimePoint now);

  // At most; there may be fewer.
  std::size_t used() const { return paced_ ? std::max(used_, kPaced) : used_; }

 private:
  void Judge(double rate, const Sample& sample, TimePoint now);

  std::size_t used_ = kFirst;
  bool paced_ = false;
  std::optional<TimePoint> start_;
  std::uint64_t start_bytes_ = 0;
  double before_ = 0;           // bytes per second of the last window; in a trial, of the last before it
  int settling_ = 0;            // windows of the trial that do not count yet
  std::size_t trial_from_ = 0;  // lanes used before the trial; 0: there is none
  TimePoint next_trial_{};
  Duration pause_{};
};

}  // namespace ringway::core
