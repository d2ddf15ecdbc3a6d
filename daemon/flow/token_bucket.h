// Paces one pair, over all of its lanes together. Pure.
//
// Small-lane traffic bypasses the bucket but is charged to it: large segments make room, up to a debt of 100 ms.
//
// One limit a lane would waste rate wherever a lane cannot use its share, during loss recovery or bbr's PROBE_RTT. Here
// the next segment goes to whichever lane has room, as soon as the pair has tokens. Tokens of up to 4 ms (at least
// 256 KiB) are kept, to make up for late timers.
#pragma once

#include "proto/clock.h"

namespace ringway::flow {

class TokenBucket {
 public:
  // Bytes per second; 0: unlimited.
  void SetRate(double rate);
  double rate() const { return rate_; }

  // Returns how long the next segment has to wait; 0 if it may be sent.
  Duration Wait(TimePoint now);
  void OnSent(double bytes);
  // Charges retransmissions of TCP, as a debt of at most 100 ms, so new segments are never held for long.
  void OnResent(double bytes);

 private:
  double rate_ = 0;
  double credit_ = 0;  // bytes that may be sent now; a segment may overdraw it
  TimePoint filled_{};
};

// Decides whether a sender is pace-limited, by the time that it had to wait.
class WaitMeter {
 public:
  // `wait` is what Wait returned for the next segment.
  void Add(Duration wait, TimePoint now);
  // Returns whether segments waited for over half of the time since the last call.
  bool TakeHeld(TimePoint now);

 private:
  Duration last_wait_{};
  TimePoint last_at_{};
  Duration waited_{};
  TimePoint taken_{};
};

}  // namespace ringway::flow
