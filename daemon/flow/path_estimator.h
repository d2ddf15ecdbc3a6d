// Estimates the bandwidth of a peer's paths and of its uplink for the planner, from samples of its lanes. Pure: samples
// and the time go in.
//
// A path is measured only while it is the bottleneck: the pair is backlogged (more is queued than its lanes or its rate
// limit take), and not receiver-limited. A path's own rate limit is close to its bandwidth; a pair limited by the
// uplink's shows a lower bound. A ring waits for its slowest link, so its other links are mostly idle and show nothing;
// nor does a trainer that sends little. The lanes of a pair count as one flow, in windows of at least 150 ms and 1.5
// round trips.
//
//   one pair is backlogged     its settled rate is the path's; the first has to be steady, too
//   several are                each rate is a lower bound of its path's; if their sum is well below that of the paths'
//                              estimates, the sum is the uplink's
//   a window ends early, or    a lower bound
//   still grows
//
// A lower bound counts where it exceeds the estimate. It replaces a missing estimate only after a probe, which had its
// chance; after a probe of several paths at once it does so for the uplink. An estimate is the mean of the first eight
// measurements, then an EWMA of weight 1/8: ACKs queued behind data arrive in bursts and lanes restart between two
// operations, so that one window is off by up to a third.
//
// It does not see bottlenecks shared with pairs of other peers (a receiver's downlink, a site's uplink), and groups of
// one daemon do not know of each other.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "daemon/flow/traffic.h"
#include "proto/clock.h"
#include "proto/ids.h"

namespace ringway::flow {

// Rate of a pair, or of several together. A rate is settled if it is at most a quarter above the previous window's;
// before that a congestion window may still be growing. A settled rate is the mean of both windows, which halves the
// error of one that was compressed or filled a queue. It is steady if it is also at most a quarter below: after a burst
// of losses lanes stall for a while and are slower than the path.
class RateWindow {
 public:
  struct Measurement {
    double bytes_per_second = 0;
    bool settled = false;  // else a lower bound
    bool steady = false;   // settled, and not falling
  };

  bool running() const { return window_.running(); }
  // `bytes`: of the tick that ends now; that of the first call after a Break does not count. Returns a measurement once
  // the window has lasted for `length`.
  std::optional<Measurement> Extend(TimePoint now, double bytes, Duration length);
  // The pair is no longer the bottleneck. Returns the rate of the unfinished window, a lower bound, if it lasted for at
  // least 20 ms; else 0.
  double Break(TimePoint now, double bytes);
  // Windows since the first without one that was over a tenth faster than all before it.
  int flat() const { return flat_; }
  // The fastest of them, in bytes per second, but for growth of less than a tenth; 0: none.
  double best() const { return best_; }

 private:
  BusyWindow window_;
  std::optional<double> before_;  // rate of the window before
  double best_ = 0;
  int flat_ = 0;
};

// Bytes per second; never 0.
struct PathReport {
  std::optional<PeerId> other;  // nothing: the uplink
  std::uint64_t bytes_per_second = 0;
  Duration round_trip{};
  bool rerouted = false;  // the round trip differs from the one last reported: the rate may differ, too
};

// Minimum of the last five to ten minutes, so that a longer route shows. 0: no sample.
class RecentShortest {
 public:
  void Add(Duration sample, TimePoint now);
  Duration value() const;

 private:
  TimePoint since_{};
  Duration now_{};
  Duration before_{};
};

class PathEstimator {
 public:
  // One sample of each pair that has traffic, all of one moment. A pair that stops being backlogged has to be sampled
  // once more.
  void Add(std::span<const PathSample> samples, TimePoint now);
  // A probe has ended. Where there is no estimate yet, the best lower bound becomes it: the path's after a probe of one
  // pair, the uplink's after a probe of several.
  void OnProbed(const std::set<PeerId>& others);
  // Returns whether the rate of these, which have been sent to alone since their probe began, rises no more: for two
  // windows, or for one where a path is as fast as the best of the others, so that a plan has no cause to avoid it.
  bool IsFlat(const std::set<PeerId>& probed) const;
  // A probe of these begins: what it shows counts as much as all that was measured before.
  void OnProbeBegins(const std::set<PeerId>& others);
  // A rate measured before, of the path or of the uplink, where none is known yet.
  void Recall(std::optional<PeerId> other, double rate);
  // Adopts the rate that a probe of another peer of this host has shown.
  void Adopt(PeerId other, double rate);
  // 0: not known.
  double RateOf(PeerId other) const;
  void Forget(PeerId other);

  // Returns estimates that are new, or whose rate or round trip differs by over a quarter from the last report; each at
  // most once a second.
  std::vector<PathReport> TakeReports(TimePoint now);
  // Resends all reports: their receiver has lost them.
  void Repeat();

 private:
  // Bytes per second; 0: not known.
  struct Estimate {
    double rate = 0;
    double weight = 0;  // number of measurements, up to 8
    double reported = 0;
    TimePoint reported_at{};

    void Settle(double measured);
    void Raise(double measured);
    // Returns the rate if it is to be reported now, and marks it as reported.
    std::optional<std::uint64_t> Report(TimePoint now, bool force = false);
  };
  struct Path {
    Estimate estimate;
    double at_least = 0;  // while there is no estimate
    RateWindow window;
    bool alone = true;  // no other pair was backlogged since the window began
    RecentShortest round_trip;
    Duration reported_round_trip{};
  };

  void MeasurePath(Path& path, const PathSample& sample, bool alone, TimePoint now);
  void MeasureUplink(const std::set<PeerId>& backlogged, double moved, TimePoint now);
  // Returns the highest estimate of the other paths; 0: none.
  double BestBeside(PeerId other) const;

  std::map<PeerId, Path> paths_;
  Estimate uplink_;
  double uplink_at_least_ = 0;  // rate of several together
  RateWindow uplink_window_;
  std::set<PeerId> sharers_;  // those backlogged in the uplink's window
};

}  // namespace ringway::flow
