// How fast a path, or an uplink that several paths share, may be driven: found by driving it. Pure.
//
// Congestion control keeps one connection from overdriving a path. Many connections of one host, each of which probes
// for more by itself, overdrive it together: a tenth of all packets overflows and every lane waits for what it lost. So
// the host finds out what all its lanes together may send, and paces each to its part.
//
//   none --overdriven--> 0.95 d --used up-----> 3%, 6%, 12% .. 25% more a window, 1% beside a queue
//                         ^      --overdriven--+
//                         +--------------------+
//
// d: what was delivered. Used up: d is the limit, or nearly where there is no queue. Queue: round trips are longer than
// the shortest; that alone is no reason to send less, for it may stand on the way back, behind what others send.
// Overdriven: there is a queue, and packets were lost; losses alone are no reason either, because long paths lose
// packets however little is sent. No ceiling is set before a path was overdriven: a connection's window, or the
// trainer, may be the lesser limit. Windows in a row that stay overdriven take no more than three quarters: then
// sending less does not help.
//
// In one bad moment next to nothing may arrive, and the limit is next to nothing then. So below half of the best that
// arrived without overdriving it doubles in every window that uses it up; each time that this overdrives the path, the
// best counts for a quarter: a path that has become slow is believed.
#pragma once

#include "proto/clock.h"

namespace ringway::core {

class Ceiling {
 public:
  // Of a time in which more waited than was taken.
  struct Window {
    double delivered = 0;   // bytes per second that arrived
    double lost_share = 0;  // of all that was sent
    Duration queueing{};    // round trip beyond the shortest
    Duration round_trip{};  // the shortest
  };

  void Judge(const Window& window);
  // Bytes per second; 0: none.
  double limit() const { return limit_; }

 private:
  double limit_ = 0;
  double best_ = 0;       // delivered in a window that was not overdriven
  double series_ = 0;     // delivered at the first of the windows in a row that were overdriven
  bool doubled_ = false;  // the limit, since the path was overdriven last
  int clean_ = 0;         // windows in a row that were used up, without a queue
};

}  // namespace ringway::core
