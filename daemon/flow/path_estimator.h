// What a peer's paths carry, from what its lanes say while there is traffic. Pure: samples and the time go in.
//
// A path is measured only while it is the limit: more waits to be sent to that peer than its lanes, or its pace, take
// (the pair is backlogged), and the other side's receive window is not why. A path's own pace is nearly what it takes;
// what is held by the pace that all paths keep together is a lower bound. A ring waits for its slowest link, so its
// other links carry less than they could and say nothing; nor does a trainer that sends little. The lanes of a pair are
// one flow: their bytes are added up in the same window (rate_window.h), which lasts for at least 1.5 round trips.
//
//   one pair is backlogged        its settled rate is the path's; the first has to be steady, too
//   several are                   each rate is a lower bound of its path's; where their sum stays well below what the
//                                 paths would carry, the sum is the peer's uplink
//   a window ends early,          a lower bound
//   or still grows
//
// A lower bound counts where it exceeds the estimate, and stands in for none but after a probe, which had its chance:
// after one of several paths at once for the uplink's, too, which may be more than any path shows.
// An estimate is the mean of what counts, then, from eight on, moved by an eighth of the difference: acknowledgements
// that queue behind data come in bunches, lanes restart between two operations, and one window's bytes say a third too
// much or too little.
//
// Not seen: limits that pairs of other peers share (a receiver's downlink, a site's); groups of one daemon do not know
// of each other.
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
  bool backlogged = false;            // more waits than they take, or may
  bool held = false;                  // .. because of the pace that the path keeps, not for lack of room
  bool held_by_uplink = false;        // .. because of the pace that all paths of the host keep together
  std::uint64_t delivered_bytes = 0;  // that have arrived at the other end; it falls when lanes are replaced
  Duration receiver_limited{};        // how long the other side's window held them up; summed over lanes, only grows
  std::uint32_t lanes = 0;
  std::uint64_t resent_bytes = 0;
  Duration round_trip{};  // the shortest; 0: not known
  Duration queueing{};    // how much longer it takes now: the mean of the lanes that send
};

// Bytes per second; never 0.
struct PathReport {
  std::optional<PeerId> other;  // nothing: the uplink
  std::uint64_t bytes_per_second = 0;
  Duration round_trip{};
  bool rerouted = false;  // the round trip is another than was told: the rate may be, too
};

// The shortest of the last five to ten minutes, so that a route that has become longer shows. 0: none.
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
  // One sample of each pair that has traffic, all of one moment. Call it again with a sample when a pair stops to be
  // backlogged.
  void Add(std::span<const PathSample> samples, TimePoint now);
  // A probe of the pair, or of several at once, is over: if nothing better came of it, its best lower bound counts; of
  // several it is the uplink's.
  void OnProbed(const std::set<PeerId>& others);
  void Forget(PeerId other);

  // Estimates that are new, or by more than a quarter other than when they were last given, in their rate or their
  // round trip; each once a second at most.
  std::vector<PathReport> TakeReports(TimePoint now);
  // Gives all of them again: who was told before has forgotten.
  void Repeat();

 private:
  // Bytes per second; 0: not known.
  struct Estimate {
    double rate = 0;
    double weight = 0;  // how many measurements it stands for
    double told = 0;
    TimePoint told_at{};

    void Settle(double measured);
    void Raise(double measured);
    // The rate, if it is to be told now; then it counts as told.
    std::optional<std::uint64_t> Tell(TimePoint now, bool other_news = false);
  };
  struct Path {
    Estimate estimate;
    double at_least = 0;  // while there is no estimate
    RateWindow window;
    bool alone = true;  // nobody else was backlogged since the window began
    PathSample last;
    TimePoint last_at{};
    RecentShortest round_trip;
    Duration told_round_trip{};
  };

  // Gives whether the path was the limit since the last sample.
  bool TakeIn(Path& path, const PathSample& sample, TimePoint now);
  void MeasurePath(Path& path, bool alone, TimePoint now);
  void MeasureUplink(const std::set<PeerId>& backlogged, TimePoint now);

  std::map<PeerId, Path> paths_;
  Estimate uplink_;
  double uplink_at_least_ = 0;  // what several moved together
  RateWindow uplink_window_;
  std::set<PeerId> sharers_;       // who was backlogged in the uplink's window
  std::uint64_t moved_bytes_ = 0;  // by all pairs
};

}  // namespace ringway::flow
