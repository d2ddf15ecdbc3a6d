// Holds what one pair sends, over all of its lanes together, to a rate. Pure.
//
// Some segments may go without waiting (small ones do): the others make room for them, up to a tenth of a second.
//
// A limit on each lane alone would be lost wherever a lane cannot use its part: while it makes up for losses, or while
// bbr looks for the shortest round trip. Here the next segment goes to whichever lane has room, as soon as the pair may
// send again. What was missed for a few milliseconds is made up for.
#pragma once

#include "proto/clock.h"

namespace ringway::core {

class Pace {
 public:
  // Bytes per second; 0: as fast as it goes.
  void SetRate(double rate);
  double rate() const { return rate_; }

  // How long the next segment has to wait, if there is one; 0: it may go.
  Duration Wait(TimePoint now);
  void OnSent(double bytes);

  // Whether segments had to wait for most of the time since the last call: the rate is what limits the pair.
  bool TakeHeld(TimePoint now);

 private:
  double rate_ = 0;
  double credit_ = 0;  // bytes that may go now; a segment may leave it below 0
  TimePoint filled_{};
  Duration told_wait_{};  // what Wait said last
  Duration waited_{};
  TimePoint told_{};
};

}  // namespace ringway::core
