// What is known of a path, or of an uplink that several paths share, from the windows in which it was driven. Pure.
//
//   c             estimates the bottleneck bandwidth, for pacing and planning. Once a limit was measured: the limit if
//                 the window was pace-limited, mostly delivered and queue-free; otherwise an EWMA of the delivery rate
//                 if that is higher, or the path falls short or loses over 2% more than its own. Before: the mean of
//                 the first four settled windows, then their EWMA
//   settled       at most a quarter above the window before: a congestion window grows no more. It is taken as the mean
//                 of both, for ACKs arrive in bursts. The first has to be steady, too, at most a quarter below: after a
//                 burst of losses lanes stall for a while. So has the first after a pause of a second, in which
//                 congestion windows start over
//   app-limited   other paths sent, the uplink's limit held segments back, or the receiver did, and the path has no
//                 queue of its own. Such a window only raises c, for it shows a part of what the path carries
//   falls short   EWMAs of the rates that the lanes are given and deliver differ by over 1.5%: the path is full.
//                 Deliveries below the limit alone do not say so: a ring's links wait for each other
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
// Before the path was limited, deliveries that still grow by a quarter a window do not count as overdriven, unless over
// 6% is lost: a window, or the trainer, may be the bottleneck. Nor, before a limit was measured, do those without a
// long queue while more lanes may carry more, unless over 6% is lost twice in a row: random losses beside jitter look
// the same.
#pragma once

#include <algorithm>
#include <cstdint>

#include "proto/clock.h"

namespace ringway::flow {

// A round trip that exceeds the minimum by so much waits in a long queue: over 10 ms, and over 1/8.
bool IsLongQueue(Duration queueing, Duration round_trip);

class PathModel {
 public:
  // A period in which the path was backlogged.
  struct Window {
    double given = 0;          // bytes per second, to the lanes
    double delivered = 0;      // likewise
    double lost_share = 0;     // retransmitted bytes by bytes sent
    Duration queueing{};       // round trip above the minimum
    Duration standing{};       // queueing beyond jitter
    Duration round_trip{};     // the minimum
    bool held = false;         // pace-limited: segments waited for the limit, not for a lane
    bool alone = true;         // the losses are this path's, or uplink's: no other that shares it sent
    bool app_limited = false;  // something else may have been the bottleneck
    bool few_lanes = false;    // more of them may carry more
  };
  enum class Limit : std::uint8_t { kNone, kAssumed, kMeasured };
  // What a window shows.
  struct Signs {
    bool grows = false;   // over a quarter faster than the window before
    bool steady = false;  // within a quarter of it
    bool queue = false;
    bool long_queue = false;
    bool lossy = false;  // over 1% beyond the path's own
    bool overdriven = false;
    bool bound_by_lanes = false;  // the lanes, as far as is known, were the bottleneck
  };
  // How the path was driven in a window.
  struct Drive {
    double limit = 0;  // 0: none
    bool held = false;
    bool filled = false;        // pace-limited, mostly delivered and queue-free
    bool only_drained = false;  // the limit was lowered for a queue only
    bool urgent = false;        // react fast to overload
  };

  Signs Read(const Window& window, Limit limit);
  // Updates c. `signs`: what Read returned for the window.
  void Estimate(const Window& window, const Signs& signs, const Drive& drive);
  // The path was seen to carry this.
  void Raise(double bandwidth);
  // The path was not driven for a second or more: the next window has none before it.
  void OnPaused();
  // What was measured is only a lower bound, until the next settled window: it was long ago.
  void Age() { seen_ = weight_ = 0; }
  // c in bytes per second; 0: unknown.
  double bandwidth() const { return bandwidth_; }
  // Likewise, but of a lower bound only what was seen since Age.
  double seen() const { return is_measured() ? bandwidth_ : seen_; }
  // Returns whether c is more than a lower bound.
  bool is_measured() const { return weight_ > 0; }
  // The mean delivery rate of the last two windows without a pause between them; 0: unknown.
  double recent() const { return mean_; }
  // Returns the delivered part of what is given.
  double arriving() const { return given_ > 0 ? arrives_ / given_ : 1; }
  bool FallsShort() const;
  bool is_queue_foreign() const { return queue_.foreign; }

  // The limit was lowered to this: so much is given, and should arrive.
  void OnLowered(double limit) { given_ = arrives_ = limit; }
  // Adds a window after that, in which losses stayed.
  void AddOwn(const Window& window);
  // The limit is so low that a queue of ours would drain, and there is one.
  void OnNotDrained();

 private:
  bool IsOverdriven(const Window& window, const Signs& signs, Limit limit);
  void Settle(double bandwidth);
  // At most 6%: windows are short, so twice what was measured.
  double own_loss() const;

  double bandwidth_ = 0;
  int weight_ = 0;    // settled windows in it, up to 4; 0: it is a lower bound
  double seen_ = 0;   // of the lower bound, since Age
  double given_ = 0;  // EWMAs
  double arrives_ = 0;
  struct {
    bool foreign = false;
    Duration before{};  // its delay in the window before
    bool shrinks = false;
    int not_drained = 0;  // windows in a row
    int without = 0;      // windows without a long queue
  } queue_;
  struct {
    double sent = 0;  // in the last few windows
    double lost = 0;
    Duration delay{};  // at most 10 ms
  } own_;
  double lost_share_ = 0;  // of the window before; 0: perhaps another's
  double before_ = 0;      // delivery rate of the window before; 0: none since the last pause
  double mean_ = 0;        // of the last two windows
  bool restarts_ = true;   // none has settled since the last pause
};

}  // namespace ringway::flow
