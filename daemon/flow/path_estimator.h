// Estimates the bandwidth of a peer's paths and of its uplink, from samples of its lanes. Pure: samples and the time go
// in.
//
// A path is measured only while it is the bottleneck: the pair is backlogged (more is queued than its lanes or its rate
// limit take), and not receiver-limited. A path's own rate limit is close to its bandwidth; a pair limited by the
// uplink's shows a lower bound. A ring waits for its slowest link, so its other links are mostly idle and show nothing;
// nor does a trainer that sends little. The lanes of a pair count as one flow: their bytes are added up in the same
// window (rate_window.h) of at least 150 ms and 1.5 round trips.
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

#include "daemon/flow/rate_window.h"
#include "proto/clock.h"
#include "proto/ids.h"

namespace ringway::flow {

// All lanes of a pair at one moment.
struct PathSample {
  PeerId other;
  bool backlogged = false;            // more is queued than the lanes take or the rate limits allow
  bool unsent = false;                // the lanes took all, and congestion control still holds some of it back
  bool held = false;                  // pace-limited by the path's rate limit
  bool held_by_uplink = false;        // pace-limited by the host's uplink
  bool lanes_are_enough = false;      // more lanes would carry no more, as far as is known
  std::uint64_t given_bytes = 0;      // to the lanes so far
  std::uint64_t delivered_bytes = 0;  // acknowledged; falls when lanes are replaced
  Duration receiver_limited{};        // time limited by the receive window; summed over lanes, monotonic
  std::uint32_t lanes = 0;
  std::uint64_t resent_bytes = 0;
  Duration round_trip{};  // minimum; 0: not known
  Duration queueing{};    // queueing delay: mean over the lanes that send
  Duration standing{};    // the part of it that jitter does not explain
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
    PathSample last;
    TimePoint last_at{};
    RecentShortest round_trip;
    Duration reported_round_trip{};
  };

  // Returns whether the path was the bottleneck since the last sample.
  bool TakeIn(Path& path, const PathSample& sample, TimePoint now);
  void MeasurePath(Path& path, bool alone, TimePoint now);
  void MeasureUplink(const std::set<PeerId>& backlogged, TimePoint now);
  // Returns the highest estimate of the other paths; 0: none.
  double BestBeside(PeerId other) const;

  std::map<PeerId, Path> paths_;
  Estimate uplink_;
  double uplink_at_least_ = 0;  // rate of several together
  RateWindow uplink_window_;
  std::set<PeerId> sharers_;       // those backlogged in the uplink's window
  std::uint64_t moved_bytes_ = 0;  // by all pairs
};

}  // namespace ringway::flow
