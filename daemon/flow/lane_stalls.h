// Which of a pair's lanes has stalled, while the others carry its path. Pure.
//
// After losses congestion control may leave one connection at a thousandth of the others' rate for minutes, and a ring
// waits for every segment. So a lane that was busy for a second, and ten round trips, and moved less than a sixteenth
// of what a lane of the pair has moved at its best, and less than a sixteenth of its part now, or next to nothing, is
// to be replaced; and one that moved so little while all others had nothing to do. Its segments go to the others, and a
// fresh connection finds its rate in no time. Each replacement halves what counts as best, so a path that has become
// slow is believed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "proto/clock.h"

namespace ringway::flow {

// One lane at one moment. Counters only grow; where they fall, the lane was replaced.
struct LaneSample {
  bool busy = false;  // a segment waits to be written, or in the kernel to be sent
  std::uint64_t delivered_bytes = 0;
  Duration receiver_limited{};  // how long the other side's window held it up
  Duration round_trip{};
};

class LaneStalls {
 public:
  // By lane; of one moment. Call it while the pair has traffic.
  void Add(std::span<const LaneSample> lanes, TimePoint now);

  // A lane to be replaced, given once.
  std::optional<std::size_t> TakeStalled();

 private:
  struct Lane {
    LaneSample last;
    double part = 0;
    // Since when it has been busy, and its counters then.
    std::optional<TimePoint> since;
    LaneSample then;
  };

  void Share(std::span<const LaneSample> now);
  void Watch(std::size_t index, TimePoint now);

  std::vector<Lane> lanes_;
  double best_ = 0;  // bytes per second
  std::optional<std::size_t> stalled_;
  TimePoint last_{};
};

}  // namespace ringway::flow
