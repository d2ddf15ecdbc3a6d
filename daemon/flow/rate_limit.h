// Rate limit of a path, or of an uplink that several paths share, found by driving it. Pure.
//
// Congestion control keeps one connection from overdriving a path. The many connections of a host, each probing for
// more, overdrive it together: a tenth of all packets is dropped and every lane waits for retransmissions. So the host
// finds the rate for all its lanes together, and paces them.
//
//   none --overdriven--> 0.96 c --pace-limited--> no queue: +3%, 6%, 12% .. 25% a window; queue: +2%; near c +0.5%
//                          ^                        |  queue, and less delivered than sent: -1%, down to c or 0.96 of
//                          |                        |  the rate at which it was overdriven last, if known
//                          +--overdriven------------+
//
//   c             estimates the bottleneck bandwidth: the limit if the window was pace-limited, mostly delivered and
//                 queue-free; otherwise an EWMA of the delivery rate, for ACKs arrive in bursts
//   pace-limited  (held) segments waited for the limit; otherwise a higher one is not needed, and deliveries say little
//                 of the path
//   queue         the round trip exceeds the minimum by over 4 ms and over 1/16, beyond the path's own delay. No reason
//                 to slow down by itself, for it may be on the reverse path; it is ours if less is delivered than sent
//   overdriven    a queue, and over 1% lost beyond the path's own losses; or without a queue, as a policer makes none,
//                 over 2% in two windows in a row in which nobody else sent
//   own           what stays though the limit was lowered, for then it is not our doing: long paths lose packets at any
//                 rate, wireless ones jitter. Judged by the second window after each reduction
//
// After a loss episode:
// - The window after a reduction is skipped: it shows what was sent before.
// - Congestion control slows down, too, so deliveries underestimate the path. The first overdriven window of a run
//   never lowers c unless it was pace-limited.
// - A run of overdriven windows lowers the limit to no less than a quarter of what its first delivered: sending less
//   does not help then.
// - The rate at which it was overdriven is forgotten once 2% more passed without a queue.
// - No limit is set before the path was overdriven once: a window, or the trainer, may be the bottleneck; nor while
//   deliveries still grow by a quarter a window, unless over 6% is lost.
//
// A bad moment may deliver next to nothing and leave a tiny limit. So below half of the best c without overdriving, the
// limit doubles every pace-limited window; each time this overdrives the path, the best is cut to a quarter: a path
// that has become slow is believed.
#pragma once

#include "proto/clock.h"

namespace ringway::flow {

// Loss and delay that a path has at any rate.
class OwnTrouble {
 public:
  // Of a window in which less was sent than the path carries.
  void Add(double sent, double lost_share, Duration queueing);
  // At most 6%: windows are short, so twice what was measured.
  double lost_share() const;
  // At most 10 ms.
  Duration delay() const { return delay_; }

 private:
  double sent_ = 0;  // of the last few windows
  double lost_ = 0;
  Duration delay_{};
};

class RateLimit {
 public:
  // A period in which the path was backlogged.
  struct Window {
    double delivered = 0;   // bytes per second
    double lost_share = 0;  // retransmitted bytes by bytes sent
    Duration queueing{};    // round trip above the minimum
    Duration round_trip{};  // the minimum
    bool held = false;      // pace-limited: segments waited for the limit, not for a lane
    bool alone = true;      // the losses are this path's, or uplink's: no other that shares it sent
  };

  void Judge(const Window& window);
  // Not backlogged. Cuts the limit back to just above c: a raise that was not used is not kept.
  void Rest();
  // While there is no limit: an initial one, which is known to pass. It is raised to the delivery rate if that is
  // higher; it grows by 25% a pace-limited window if over 70% is delivered, under 10% is lost, and 5% more is delivered
  // than at its last growth; it ends when the first real limit is found.
  void Assume(double limit);
  bool assumed() const { return assumed_; }
  // Whether there is a limit that was measured, not assumed.
  bool known() const { return limit_ > 0 && !assumed_; }
  // c in bytes per second; 0: unknown.
  double carries() const { return carries_; }
  // Bytes per second; 0: unlimited.
  double limit() const { return limit_; }

 private:
  bool IsQueue(const Window& window) const;
  bool IsOverdriven(const Window& window);
  void JudgeAssumed(const Window& window, bool overdriven);
  // Whether less is lost since the limit was lowered, so that the losses were ours.
  bool HasHelped(const Window& window) const;
  void Lower(double carries, const Window& window);
  void Raise(bool queue);

  double limit_ = 0;
  double carries_ = 0;     // c
  double offered_ = 0;     // EWMA of the limit, with c's weight, to compare with c
  double overdriven_ = 0;  // c when overdriven last; 0: unknown, or more has passed since
  double best_ = 0;        // highest c while not overdriven
  double series_ = 0;      // delivery rate of the first overdriven window of the current run; 0: no run
  double grown_at_ = 0;    // delivery rate when an assumed limit grew last
  OwnTrouble own_;
  bool lost_much_ = false;  // in the window before
  double seen_ = 0;         // delivery rate of the window before, while there is no limit
  struct {
    double lost_share = 0;
    double share = 0;  // of the limit
  } lowered_;          // last: why, and by how much
  bool assumed_ = false;
  int settling_ = 0;      // windows until what the limit was lowered to shows
  bool doubled_ = false;  // since overdriven last
  int steps_ = 0;         // raises in a row
};

}  // namespace ringway::flow
