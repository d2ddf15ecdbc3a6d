// Rate limit of a path, or of an uplink that several paths share, found by driving it. Pure.
//
// Congestion control keeps one connection from overdriving a path. The many connections of a host, each probing for
// more, overdrive it together: a tenth of all packets is dropped and every lane waits for retransmissions. So the host
// finds the rate for all its lanes together, and paces them. After each window it makes the first move that applies, by
// what the window shows (path_model.h):
//
//   move          when                                          the limit
//   kLower        overdriven; this sets the first limit, too    0.96 c
//   kHold         not pace-limited, or at least twice c         stays
//   kRegrow       under half of the best c                      doubles
//   kDrain        long queue, not foreign                       less by as much as falls short, 1 to 5%, down to 0.95 c
//   kYield        queue, and falls short                        -1%, down to c
//   kNudge        within 5% of where it was overdriven          +0.5%, or 1% since a queue showed it
//   kPress        queue                                         +2%
//   kProbe        otherwise                                     +3%, 6%, 12% .. 25%
//
// After a loss episode:
// - The window after a reduction is skipped: it shows what was sent before.
// - Congestion control slows down, too, so deliveries underestimate the path. The first overdriven window of a run
//   never lowers c unless it was pace-limited.
// - A run of overdriven windows lowers the limit to no less than a quarter of what its first delivered: sending less
//   does not help then.
// - The rate at which it was overdriven is forgotten once 2% more passed without a queue, and without losses beyond the
//   path's own: a policer makes no queue.
//
// Beside others' traffic the limit behaves as `share` TCP connections: it falls by 0.3 / share when overdriven, as
// cubic does by 0.3, and rises near c in proportion to share. The factors above are those of the default.
//
// No limit is below 128 KiB/s: a segment that waits for less would keep the path from showing that it has recovered.
//
// A bad moment may deliver next to nothing and leave a tiny limit, so it regrows; each time this overdrives the path,
// the best c is cut to a quarter: a path that has become slow is believed. Nor is the limit nudged where c is under 0.8
// of the best, which falls by a tenth with each run of overdriven windows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "daemon/flow/path_model.h"
#include "proto/clock.h"

namespace ringway::flow {

// Number of TCP connections whose share of a shared bottleneck a pair claims.
inline constexpr std::uint32_t kShareDefault = 8;
inline constexpr std::uint32_t kShareMax = 128;

class RateLimit {
 public:
  using Window = PathModel::Window;

  // REQUIRES: 1 <= share <= kShareMax.
  explicit RateLimit(std::uint32_t share = kShareDefault);

  void Judge(const Window& window);
  // A window of a path that gets no limit: it is nearby.
  void Observe(const Window& window);
  // It was seen to carry this.
  void Raise(double bandwidth) { model_.Raise(bandwidth); }
  // The path is not backlogged. Cuts the limit back to just above c: a raise that was not used is not kept.
  void Rest();
  // While there is no limit: an initial one, which may pass. It is raised to the delivery rate if that is
  // higher; it grows by 25% a pace-limited window if over 70% is delivered, under 10% is lost, and 5% more is delivered
  // than at its last growth, or more lanes may carry more; it ends when the first real limit is found: by losses, or in
  // two windows in a row with a long queue in which under 0.9 arrives of what was given a window before.
  void Assume(double limit);
  // Likewise, and it is known to pass.
  void AssumeSeen(double limit);
  bool assumed() const { return assumed_.has_value(); }
  // The path was not backlogged for a second or more.
  void OnPaused() { model_.OnPaused(); }
  // What was learnt was learnt long ago.
  void Age() { model_.Age(); }
  // Returns whether there is a limit that was measured, not assumed.
  bool known() const { return limit_ > 0 && !assumed(); }
  // c in bytes per second; 0: unknown.
  double carries() const { return model_.bandwidth(); }
  // What to report of c (PathModel).
  double seen() const { return model_.seen(); }
  // Returns whether c is more than a lower bound.
  bool is_measured() const { return model_.is_measured(); }
  // The mean delivery rate of the last two windows; 0: unknown.
  double recent() const { return model_.recent(); }
  // Bytes per second; 0: unlimited.
  double limit() const { return limit_; }

 private:
  enum class Move : std::uint8_t { kLower, kHold, kRegrow, kDrain, kYield, kNudge, kPress, kProbe };

  void JudgeAssumed(const Window& window, const PathModel::Signs& signs);
  // Returns whether less is lost since the limit was lowered, so that the losses were ours.
  bool HasHelped(const Window& window) const;
  Move Choose(const Window& window, const PathModel::Signs& signs) const;
  struct Gain;
  static const Gain kGains[];  // by Move
  double GainOf(Move move);
  void Make(Move move, const Window& window);
  void Lower(const Window& window);
  void Drain();

  // While the limit is assumed.
  struct Assumed {
    double initial = 0;
    double given_before = 0;
    double grown_at = 0;  // delivery rate when it grew last
    int full = 0;         // windows in a row in which it was more than the path carries
  };
  // The last time that the limit was lowered.
  struct Reduction {
    double lost_share = 0;  // why
    double share = 0;       // of the limit
    int settling = 0;       // windows until it shows
  };

  std::uint32_t share_;
  double less_;  // of c, when overdriven
  PathModel model_;
  double limit_ = 0;
  std::optional<Assumed> assumed_;
  Reduction reduction_;
  double overdriven_ = 0;  // c when overdriven last; 0: unknown, or more has passed since
  double best_ = 0;        // highest c while not overdriven
  double series_ = 0;      // delivery rate of the first overdriven window of the current run; 0: no run
  bool drained_ = false;   // since it was lowered for losses
  bool doubled_ = false;   // since overdriven last
  int probes_ = 0;         // in a row
};

// Rate limits of the paths to other hosts, kept when the pairs that measured them end: a group that forms again on the
// same hosts does not overdrive their paths again.
//
// Each pair has its own limit while it lives; the next pair to a host starts with the one that was measured last. A
// host is a daemon's name and the address that its connections come from: several may share either.
//
//   measured             the next pair's limit is
//   within kFresh        the same, with everything that was learnt of the path
//   before               an initial one (RateLimit::Assume): the path may have changed
//   without a limit      likewise, the bandwidth, or somewhat above a lower bound: kept lanes (net/listener.h) have
//                        open windows
//   nothing passed       none
class PathMemory {
 public:
  static constexpr std::size_t kHostsMax = 4096;
  static constexpr Duration kFresh = std::chrono::hours(1);

  // `share`: see RateLimit.
  explicit PathMemory(std::uint32_t share) : share_(share) {}

  // Ignored if what is kept was measured later. The host measured longest ago is forgotten if there are too many.
  void Keep(const std::string& host, const RateLimit& rate_limit, TimePoint measured_at);
  // Returns the rate limit that a pair to the host starts with.
  RateLimit Recall(const std::string& host, TimePoint now) const;

 private:
  struct Known {
    RateLimit rate_limit;
    TimePoint measured_at;
  };

  std::uint32_t share_;
  std::map<std::string, Known> hosts_;
};

}  // namespace ringway::flow
