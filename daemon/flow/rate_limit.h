// How fast a path, or an uplink that several paths share, may be driven: found by driving it. Pure.
//
// Congestion control keeps one connection from overdriving a path. Many connections of one host, each of which probes
// for more by itself, overdrive it together: a tenth of all packets overflows and every lane waits for what it lost. So
// the host finds out what all its lanes together may send, and holds them to it.
//
//   none --overdriven--> 0.96 c --held-----> 3%, 6%, 12% .. 25% more a window, beside a queue 2%; near c 0.5%
//                          ^                  |  beside a queue, while less arrives than is sent: 1% less, down to c,
//                          |                  |  or 0.96 times what it was when the path was overdriven last, if known
//                          +--overdriven------+
//
// c: what the path carries. Where segments had to wait for the limit, most of it arrived and there was no queue, that
// is the limit; otherwise what was delivered, smoothed, for acknowledgements come in bunches and one window says a
// fifth too much or too little. Held: the limit is why not more was sent; else there is no reason for a higher one, and
// what arrived says little of the path, for something else was what limited. Queue: round trips are longer than the
// shortest; that alone is no reason to send less, for it may stand on the way back, behind what others send. Where less
// arrives than is sent, it is ours. Overdriven: there is a queue, and packets were lost; losses alone are no reason
// either, because long paths lose packets however little is sent. Connections slow down by themselves then, so what
// arrives meanwhile is less than the path carries: where they do, the first such window in a row counts like any other,
// and if less was sent than the limit allows, as where a burst overflows, it says nothing of what the path carries. The
// window after it is not judged: it shows what was sent before. Where 2% more than was too much pass without a queue,
// it is too much no longer. No ceiling is set before a path was overdriven: a connection's window, or the trainer, may
// be the lesser limit. Windows in a row that stay overdriven take no more than three quarters: then sending less does
// not help.
//
// In one bad moment next to nothing may arrive, and the limit is next to nothing then. So below half of the best that
// arrived without overdriving it doubles in every window that is held; each time that this overdrives the path, the
// best counts for a quarter: a path that has become slow is believed.
#pragma once

#include "proto/clock.h"

namespace ringway::flow {

class RateLimit {
 public:
  // Of a time in which more waited than was taken.
  struct Window {
    double delivered = 0;   // bytes per second that arrived
    double lost_share = 0;  // of all that was sent
    Duration queueing{};    // round trip beyond the shortest
    Duration round_trip{};  // the shortest
    bool held = false;      // segments waited for the limit, not for room
  };

  void Judge(const Window& window);
  // For now there is nothing to judge. What the limit was raised by and nobody has tried is not kept.
  void Rest();
  // While there is no limit: one to begin with, that was seen to pass. It gives way to whatever more arrives, grows by
  // 25% whenever most of it arrives, little is lost, and more arrives than when it grew last, and ends with the first
  // true one.
  void Assume(double limit);
  bool assumed() const { return assumed_; }
  // Whether there is a limit that was found, not assumed.
  bool known() const { return limit_ > 0 && !assumed_; }
  // As far as was seen; 0: nothing was.
  double carries() const { return carries_; }
  // Bytes per second; 0: none.
  double limit() const { return limit_; }

 private:
  void JudgeAssumed(const Window& window, bool overdriven);
  void Lower(double carries, double delivered);
  void Raise(bool queue);

  double limit_ = 0;
  double carries_ = 0;     // c
  double offered_ = 0;     // the limit, smoothed as c is, to compare it with
  double overdriven_ = 0;  // c, when it was overdriven last; 0: not known well, or more passed since
  double best_ = 0;        // c, the most while it was not overdriven
  double series_ = 0;      // delivered in the first of the windows in a row that were overdriven
  double grown_at_ = 0;    // what arrived when an assumed limit grew last
  bool assumed_ = false;
  bool settling_ = false;  // the next window shows what was sent before the limit was lowered
  bool doubled_ = false;   // the limit, since the path was overdriven last
  int steps_ = 0;          // in a row
};

}  // namespace ringway::flow
