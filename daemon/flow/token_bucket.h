// Holds what one pair sends, over all of its lanes together, to a rate. Pure.
//
// Some segments may go without waiting (small ones do): the others make room for them, up to a tenth of a second.
//
// A limit on each lane alone would be lost wherever a lane cannot use its part: while it makes up for losses, or while
// bbr looks for the shortest round trip. Here the next segment goes to whichever lane has room, as soon as the pair may
// send again. What was missed for a few milliseconds is made up for.
#pragma once

#include "proto/clock.h"

namespace ringway::flow {

class TokenBucket {
 public:
  // Bytes per second; 0: as fast as it goes.
  void SetRate(double rate);
  double rate() const { return rate_; }

  // How long the next segment has to wait, if there is one; 0: it may go.
  Duration Wait(TimePoint now);
  void OnSent(double bytes);

 private:
  double rate_ = 0;
  double credit_ = 0;  // bytes that may go now; a segment may leave it below 0
  TimePoint filled_{};
};

// Whether a pace is what limits a sender: adds up for how long it had to wait.
class WaitMeter {
 public:
  // The next segment has to wait for so long; 0: it may go.
  void Add(Duration wait, TimePoint now);
  // Whether segments had to wait for most of the time since the last call.
  bool TakeHeld(TimePoint now);

 private:
  Duration told_wait_{};
  TimePoint told_at_{};
  Duration waited_{};
  TimePoint taken_{};
};

}  // namespace ringway::flow
