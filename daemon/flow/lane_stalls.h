// Which of a pair's lanes has stalled while the others carry the traffic. Pure.
//
// After losses congestion control may leave one connection at a thousandth of the others' rate for minutes, and a ring
// waits for every segment. A lane is stalled if, over one second and at least ten round trips of being busy, without
// being receiver-limited for over a quarter of it, its rate is under 1/16 of the best of any lane of the pair, and one
// of
//
//   - its share of the pair's recent traffic is under 1/16 of a busy lane's fair share
//   - its rate is under 1/256 of the best
//   - all other lanes are idle: they wait for it
//
// It is to be replaced: its segments go to the others, and a fresh connection finds its rate quickly. Each replacement
// halves the best rate, so that a path that has become slow is not replaced for ever.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "proto/clock.h"

namespace ringway::flow {

// One lane at one moment. Counters are monotonic; where they fall, the lane was replaced.
struct LaneSample {
  bool busy = false;  // a segment is being written, or the kernel has unsent bytes
  std::uint64_t delivered_bytes = 0;
  Duration receiver_limited{};  // time limited by the receive window
  Duration round_trip{};
};

class LaneStalls {
 public:
  // Samples of one moment, by lane. To be called at every tick while the pair has traffic.
  void Add(std::span<const LaneSample> lanes, TimePoint now);

  // Returns a lane to be replaced, once.
  std::optional<std::size_t> TakeStalled();

 private:
  struct Lane {
    LaneSample last;
    double share = 0;  // of the pair's traffic, smoothed
    // Since when it has been busy, and its counters then.
    std::optional<TimePoint> since;
    LaneSample then;
  };

  void UpdateShares(std::span<const LaneSample> now);
  void Watch(std::size_t index, TimePoint now);

  std::vector<Lane> lanes_;
  double best_ = 0;  // rate of any lane so far, in bytes per second
  std::optional<std::size_t> stalled_;
  TimePoint last_{};
};

}  // namespace ringway::flow
