// How many of a pair's lanes carry large segments: few while few fill the path, because unpaced lanes overdrive it
// together; more where each is bound by its window or by losses, or where all are held to a pace (token_bucket.h): then
// more do no harm, and one that is held up matters less. Pure.
//
//   settled --its rate is steady--> trial: half as many more, or after one that gained a quarter twice as many; a third
//                                     fewer where over 3% had to be sent again
//      ^                              |   |
//      +--more: 5% faster, fewer:-----+   |
//      |  not 5% slower: so it stays      |
//      +--else as before; no trial for----+
//         10 s, 20 s, 40 s ..
//
// Judged by windows of 0.5 s, and five round trips, in which the lanes were the limit all the time. The first two of a
// trial do not count, three where lanes have to be opened for it: fresh connections have to find their rate. A trial
// that traffic leaves for 5 s ends without a verdict; after a minute without any, it begins anew with few lanes, and
// those that were opened are of no more use.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "proto/clock.h"

namespace ringway::flow {

class LaneScaler {
 public:
  // Large lanes that are used from the start, and at least while they keep a pace.
  static constexpr std::size_t kFirst = 4;
  static constexpr std::size_t kPaced = 8;

  // All of a pair at one moment. `delivered_bytes` only grows, or lanes were replaced.
  struct Sample {
    bool backlogged = false;  // more waits than the lanes take
    bool paced = false;
    std::size_t lanes = 0;  // large ones that are up
    std::uint64_t delivered_bytes = 0;
    std::uint64_t resent_bytes = 0;
    Duration round_trip{};
  };
  void Add(const Sample& sample, TimePoint now);

  // At most; there may be fewer.
  std::size_t used() const { return paced_ ? std::max(used_, kPaced) : used_; }
  // How many large ones to have open.
  std::size_t wanted(TimePoint now) const;

 private:
  void OnRest(Duration rest);
  void Judge(double rate, bool overdriven, const Sample& sample, TimePoint now);
  void Try(std::size_t lanes, std::size_t up);

  std::size_t used_ = kFirst;
  std::size_t most_used_ = kFirst;  // since the last long rest
  bool paced_ = false;
  std::optional<TimePoint> start_;
  Sample then_;                          // at the start
  std::optional<TimePoint> backlogged_;  // was it last
  double before_ = 0;                    // bytes per second of the last window; in a trial, of the last before it
  int settling_ = 0;                     // windows of the trial that do not count yet
  std::size_t trial_from_ = 0;           // lanes used before the trial; 0: there is none
  bool each_counts_ = false;             // the last trial gained in proportion
  bool fewer_are_slower_ = false;        // said the last trial: the losses are the path's, and the next is for more
  TimePoint next_trial_{};
  Duration pause_{};
};

}  // namespace ringway::flow
