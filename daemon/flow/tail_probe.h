// Decides when an idle lane sends empty frames after its last segment, as a tail loss probe. Pure.
//
// TCP detects a loss by what arrives after it. Nothing arrives after the last packet, so its loss shows only at a
// timer: after two round trips, and 200 ms more for a lone packet. A ring waits for each of those. Up to three empty
// frames, one a tick, reveal the loss within one round trip.
//
//   OnSegment --> a tick without a segment: look --> not sent yet: look again
//       ^                                       +--> sent, not acknowledged: send an empty frame; done after three
//       +--any time                             +--> acknowledged: done
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
  // At a tick: returns whether to look at the lane now.
  bool TakeTurn() { return frames_left_ > 0 && !std::exchange(fresh_, false); }
  // Takes what the look showed; returns whether to send an empty frame now.
  bool OnLooked(bool unsent, bool unacknowledged) {
    if (unsent) return false;
    frames_left_ = unacknowledged ? frames_left_ - 1 : 0;
    return unacknowledged;
  }
  // Returns whether another tick is needed.
  bool pending() const { return frames_left_ > 0; }

 private:
  static constexpr int kFrames = 3;
  int frames_left_ = 0;
  bool fresh_ = false;
};

}  // namespace ringway::flow
