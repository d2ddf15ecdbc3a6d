// Decides how many of a pair's lanes carry large segments. Pure.
//
// Few lanes are used while few fill the path, for unpaced lanes overdrive it together. More are used where each is
// window- or loss-limited, or where the pair is paced (pacing.h): then more do no harm, and one stalled lane
// matters less. No lanes are added where unpaced lanes wait in a long queue (path_model.h): what they would gain there,
// others would lose.
//
//   settled --rate is steady--> trial: half as many more (twice as many after one that gained 25%, or where over 0.5%
//                                 was retransmitted: lanes that random losses bound are many, and their rate varies);
//                                 a third fewer where over 3% was retransmitted, until that or more of them showed that
//                                 the path loses them at any rate
//      ^                          |   |
//      +--more: over 5% faster;---+   |
//      |  fewer: under 5% slower: kept|
//      +--else reverted; after more, -+
//         next trial in 10 s, 20 s, 40 s .. 10 min
//
// Window: 0.5 s, at least five round trips, backlogged throughout. Those that were held for the most part say nothing
// of the lanes: RateLimit judges them, and raises the limit until it judges nothing. A trial skips its first two
// windows, three where lanes have to be opened, while fresh connections find their rate. A trial interrupted by a rest
// of 5 s is reverted without a verdict; a minute's rest resets everything to few lanes, and the lanes opened since are
// not wanted any more.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "daemon/flow/traffic.h"
#include "proto/clock.h"

namespace ringway::flow {

class LaneScaler {
 public:
  // Large lanes used at first, and at least while the pair is paced.
  static constexpr std::size_t kFirst = 4;
  static constexpr std::size_t kPaced = 8;

  // What a pair asks of its lanes.
  struct Demand {
    double pace = 0;          // its limit in bytes per second; 0: none
    bool busy = false;        // it has traffic
    bool held = false;        // for the limit or the uplink's, not for the lanes
    bool backlogged = false;  // more waits than the lanes take, or than the limits allow
  };
  // `tick`: of the pair. `up`: large lanes that are up.
  void Add(const Traffic& tick, Duration round_trip, const Demand& demand, std::size_t up, TimePoint now);

  // Large lanes to use, at most; fewer may be up.
  std::size_t used() const { return paced_ ? std::max(used_, kPaced) : used_; }
  // Returns whether more lanes would carry little more, as far as is known: they have been tried, or there are none.
  bool is_enough() const { return enough_; }
  // Large lanes to have open.
  std::size_t wanted(TimePoint now) const;

 private:
  void OnRest(Duration rest);
  struct Window {
    double rate = 0;          // bytes per second
    double resent = 0;        // of what arrived
    bool held = false;        // now and then
    bool long_queue = false;  // at its end
  };
  void Judge(const Window& window, std::size_t up, TimePoint now);
  void EndTrial(const Window& window, TimePoint now);
  void Try(std::size_t lanes, std::size_t up);

  bool paced_ = false;
  std::size_t used_ = kFirst;
  std::size_t most_used_ = kFirst;  // since the last long rest
  BusyWindow window_;
  std::optional<TimePoint> backlogged_;  // last time
  Window before_;                        // the last; in a trial, the last before it
  int settling_ = 0;                     // windows of the trial yet to be skipped
  std::size_t trial_from_ = 0;           // lanes used before the trial; 0: no trial
  bool each_counts_ = false;             // the last trial gained over 25%
  bool losses_are_the_paths_ = false;    // as the last trial showed: more were faster, or fewer slower
  bool enough_ = false;                  // more gained little, or nothing and lost more, or there are no more
  TimePoint next_trial_{};
  Duration pause_{};
};

}  // namespace ringway::flow
