// Reports to the master of a peer's paths and of its uplink: bandwidths, as flow control measures them
// (daemon/flow/path_model.h), and round trips. Pure: samples and the time go in.
//
//   bandwidth          becomes what is known
//   measured, higher   at once
//   measured, lower    after three seconds without one as high, for losses and stalls pass; pauses of over a second
//                      between measurements do not count; at once when a probe ends
//   a lower bound      where it exceeds what is known; where nothing is, only when a probe ends, which had its chance
//
// While a path is cold, what is measured is a lower bound, too: until its connections have carried what 32 round trips
// at that rate do, at most 64 MiB. A short transfer over cold connections ends before they show what the path takes,
// and a plan that avoids the path never learns better.
//
// A report is made of what is new, or differs by over a quarter from the last one; at most one a second for each path.
//
// Bottlenecks that are shared with other hosts (a receiver's downlink, a site's uplink) do not show.
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

namespace ringway::agreement {

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

class PathReports {
 public:
  // One sample of each pair that has traffic, all of one moment.
  void Add(std::span<const flow::PathSample> samples, const flow::Bandwidth& uplink, TimePoint now);
  // A probe has ended: it shows the path after a probe of one pair, the uplink after a probe of several.
  void OnProbed(const std::set<PeerId>& others);
  // A rate measured before, of the path or of the uplink, where none is known yet.
  void Recall(std::optional<PeerId> other, double rate);
  // Adopts the rate that a probe of another peer of this host has shown.
  void Adopt(PeerId other, double rate) { paths_[other].rate = {.known = rate}; }
  // 0: not known.
  double RateOf(PeerId other) const;
  void Forget(PeerId other) { paths_.erase(other); }

  std::vector<PathReport> Take(TimePoint now);
  // Resends all reports: their receiver has lost them.
  void Repeat();

 private:
  // Bytes per second; 0: not known.
  struct Rate {
    double known = 0;
    double measured = 0;  // last
    double at_least = 0;
    TimePoint measured_at{};
    TimePoint reached_at{};  // when as much as is known was measured last; pauses since then are added

    void Add(const flow::Bandwidth& bandwidth, TimePoint now);
  };
  struct Reported {
    double rate = 0;
    TimePoint at{};

    // Returns the rate if it is to be reported now, and marks it as reported.
    std::optional<std::uint64_t> Take(double known, TimePoint now, bool force = false);
  };
  struct Path {
    Rate rate;
    Reported reported;
    RecentShortest round_trip;
    Duration reported_round_trip{};
  };

  std::map<PeerId, Path> paths_;
  Rate uplink_;
  Reported uplink_reported_;
};

}  // namespace ringway::agreement
