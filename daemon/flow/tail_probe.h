// When a lane that has nothing more to send sends empty frames after its last segment. Pure.
//
// TCP hears of a lost packet by what arrives after it. After the last one nothing does, so a loss there shows only when
// a timer ends: two round trips, and 200 ms more after a lone packet. A chain of segments around a ring waits for each
// of those. Three empty frames, one a tick, let TCP know after one round trip.
//
//   OnSegment --> a tick without a segment: look --> some of it has not left yet: look again
//       ^                                       +--> it has, and is not acknowledged: a frame; over after three
//       +--any time                             +--> acknowledged: over
#pragma once

#include <utility>

#include "proto/clock.h"

namespace ringway::flow {

class TailProbe {
 public:
  static constexpr Duration kTick = std::chrono::milliseconds(10);

  void OnSegment() {
    frames_left_ = kFrames;
    fresh_ = true;
  }
  // At a tick: whether to look at the lane now.
  bool TakeTurn() { return frames_left_ > 0 && !std::exchange(fresh_, false); }
  // What the look showed. Gives whether to send a frame now.
  bool OnLooked(bool unsent, bool unacknowledged) {
    if (unsent) return false;
    frames_left_ = unacknowledged ? frames_left_ - 1 : 0;
    return unacknowledged;
  }
  // Whether there is to be another tick.
  bool pending() const { return frames_left_ > 0; }

 private:
  static constexpr int kFrames = 3;
  int frames_left_ = 0;
  bool fresh_ = false;
};

}  // namespace ringway::flow
