// Rate limit of a path, or of an uplink that several paths share, found by driving it. Pure.
//
// Congestion control keeps one connection from overdriving a path. The many connections of a host, each probing for
// more, overdrive it together: a tenth of all packets is dropped and every lane waits for retransmissions. So the host
// finds the rate for all its lanes together, and paces them.
//
//   none --overdriven--> 0.96 c --pace-limited--> no queue:      +3%, 6%, 12% .. 25% a window; near c +0.5%, or 1%
//                          ^                                     where a queue showed it
//                          |                      long queue:    as much less as falls short, 1 to 5%, down to 0.95 c
//                          |                      foreign queue: +2%; -1% where it falls short
//                          +--overdriven------------+
//
//   c             estimates the bottleneck bandwidth: the limit if the window was pace-limited, mostly delivered and
//                 queue-free; otherwise an EWMA of the delivery rate, for ACKs arrive in bursts, if that is higher, or
//                 the path falls short or loses over 2% more than its own
//   falls short   the lanes deliver less than they are given (Arrivals): the path is full. Deliveries below the limit
//                 alone do not say so: a ring's links wait for each other
//   pace-limited  (held) segments waited for the limit; otherwise a higher one is not needed, and deliveries say little
//                 of the path
//   queue         the round trip exceeds the minimum by over 4 ms and over 1/16, beyond the path's own delay
//   long queue    a queue of over 10 ms and over 1/8. It is drained, for every step of a schedule waits in it
//   foreign queue a long queue that did not shrink for five windows although the limit should have drained it: others',
//                 or that of the ACKs' way; until there was no long queue in 50 windows
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
// - The rate at which it was overdriven is forgotten once 2% more passed without a queue, and without losses beyond the
//   path's own: a policer makes no queue.
// - No limit is set before the path was overdriven once: a window, or the trainer, may be the bottleneck; nor while
//   deliveries still grow by a quarter a window, unless over 6% is lost; nor without a long queue while more lanes may
//   carry more, unless over 6% is lost twice in a row: random losses beside jitter look the same.
//
// Beside others' traffic the limit behaves as `share` TCP connections: it falls by 0.3 / share when overdriven, as
// cubic does by 0.3, and rises near c in proportion to share. The factors above are those of the default.
//
// A bad moment may deliver next to nothing and leave a tiny limit. So below half of the best c without overdriving, the
// limit doubles every pace-limited window; each time this overdrives the path, the best is cut to a quarter: a path
// that has become slow is believed. Nor is it near c where c is under 0.8 of the best, which falls by a tenth with each
// run of overdriven windows.
#pragma once

#include <cstdint>

#include "proto/clock.h"

namespace ringway::flow {

// EWMAs of the rate that the lanes are given, and of the rate that arrives.
class Arrivals {
 public:
  // Bytes per second.
  void Add(double given, double delivered);
  void Reset(double rate) { given_ = delivered_ = rate; }
  // Returns the delivered part of what is given.
  double share() const;
  bool FallsShort() const;

 private:
  double given_ = 0;
  double delivered_ = 0;
};

// Whose the long queue of a path is.
class StandingQueue {
 public:
  void OnWindow(Duration queueing, bool is_long);
  // The limit is so low that a queue of ours would drain, and there is one.
  void OnNotDrained();
  bool foreign() const { return foreign_; }

 private:
  bool foreign_ = false;
  Duration before_{};  // its delay in the window before
  bool shrinks_ = false;
  int not_drained_ = 0;  // windows in a row
  int without_ = 0;      // windows without a long queue
};

// Loss and delay that a path has at any rate.
class BaselineLoss {
 public:
  // Adds a window in which less was sent than the path carries.
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

// Number of TCP connections whose share of a shared bottleneck a pair claims.
inline constexpr std::uint32_t kShareDefault = 8;
inline constexpr std::uint32_t kShareMax = 128;

// A round trip that exceeds the minimum by so much waits in a long queue: over 10 ms, and over 1/8.
bool IsLongQueue(Duration queueing, Duration round_trip);

class RateLimit {
 public:
  // REQUIRES: 1 <= share <= kShareMax.
  explicit RateLimit(std::uint32_t share = kShareDefault);

  // A period in which the path was backlogged.
  struct Window {
    double given = 0;        // bytes per second, to the lanes
    double delivered = 0;    // likewise
    double lost_share = 0;   // retransmitted bytes by bytes sent
    Duration queueing{};     // round trip above the minimum
    Duration standing{};     // queueing beyond jitter
    Duration round_trip{};   // the minimum
    bool held = false;       // pace-limited: segments waited for the limit, not for a lane
    bool alone = true;       // the losses are this path's, or uplink's: no other that shares it sent
    bool few_lanes = false;  // more of them may carry more
  };

  void Judge(const Window& window);
  // The path is not backlogged. Cuts the limit back to just above c: a raise that was not used is not kept.
  void Rest();
  // While there is no limit: an initial one, which is known to pass. It is raised to the delivery rate if that is
  // higher; it grows by 25% a pace-limited window if over 70% is delivered, under 10% is lost, and 5% more is delivered
  // than at its last growth, or more lanes may carry more; it ends when the first real limit is found: by losses, or in
  // two windows in a row with a long queue in which under 0.9 arrives of what was given a window before.
  void Assume(double limit);
  bool assumed() const { return assumed_; }
  // Returns whether there is a limit that was measured, not assumed.
  bool known() const { return limit_ > 0 && !assumed_; }
  // c in bytes per second; 0: unknown.
  double carries() const { return carries_; }
  // Bytes per second; 0: unlimited.
  double limit() const { return limit_; }

 private:
  bool IsQueue(const Window& window) const;
  bool IsLongQueue(const Window& window) const;
  // Returns whether the lanes, as far as is known, were the bottleneck.
  static bool IsBoundByLanes(const Window& window);
  bool IsOverdriven(const Window& window);
  void JudgeAssumed(const Window& window, bool overdriven);
  // Returns whether less is lost since the limit was lowered, so that the losses were ours.
  bool HasHelped(const Window& window) const;
  void Lower(double carries, const Window& window);
  void Raise(const Window& window);
  void Drain();

  double less_;    // of c, when overdriven
  double gentle_;  // raise near where it was overdriven
  double beside_queue_;
  double step_max_;
  double limit_ = 0;
  double carries_ = 0;  // c
  Arrivals arrivals_;
  StandingQueue queue_;
  double given_before_ = 0;  // while the limit is assumed
  double overdriven_ = 0;    // c when overdriven last; 0: unknown, or more has passed since
  double best_ = 0;          // highest c while not overdriven
  double series_ = 0;        // delivery rate of the first overdriven window of the current run; 0: no run
  double grown_at_ = 0;      // delivery rate when an assumed limit grew last
  int full_ = 0;             // windows in a row in which an assumed limit was more than the path carries
  BaselineLoss own_;
  double lost_share_ = 0;  // of the window before; 0: perhaps another's
  double seen_ = 0;        // delivery rate of the window before, while there is no limit
  struct {
    double lost_share = 0;
    double share = 0;  // of the limit
  } lowered_;          // last: why, and by how much
  bool assumed_ = false;
  int settling_ = 0;      // windows until what the limit was lowered to shows
  bool drained_ = false;  // since it was lowered for losses
  bool doubled_ = false;  // since overdriven last
  int steps_ = 0;         // raises in a row
};

}  // namespace ringway::flow
