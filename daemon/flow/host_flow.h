// What each pair of this host may send, so that together they do not overdrive a path or the uplink. Pure: samples and
// the time go in, rates come out.
//
// A path that is backlogged is judged window by window by its own RateLimit; while two or more are, all together by the
// uplink's: then a queue that all of them see is the uplink's, and only what one sees beyond it is that path's own;
// unless their limits come to less than the uplink's, for then each may have a queue of its own. What a path loses that
// is held well below its part of the uplink, it loses by itself. The uplink's limit holds for two and more only, for
// only then is it judged. Before that it is taken to be what the best of the paths carries, for that went through it,
// and grows from there.
//
//   tick: Add(samples of one peer) ... of all peers of the host --> Decide(now) --> rate(path) for each
//   segment: Wait(path) --> OnSent(path)
//
// A window lasts for two round trips, 200 ms at least, but for one while there is no limit yet, or only an assumed one:
// fresh connections double their rate every round trip. What comes less than one round trip after the path came to be
// backlogged does not count: before, nothing that was sent can have been acknowledged. A window may be of several such
// times. Paths within a site (round trips below 1 ms) are left alone.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "daemon/flow/path_estimator.h"
#include "daemon/flow/rate_limit.h"
#include "daemon/flow/uplink_share.h"
#include "proto/clock.h"
#include "proto/ids.h"

namespace ringway::flow {

class HostFlow {
 public:
  // A path that is not sampled at a tick is not backlogged at it.
  void Add(PeerId self, const PathSample& sample);
  void Decide(TimePoint now);
  // Bytes per second; 0: as fast as it goes. Holds until the next Decide.
  double rate(const PathKey& path) const;
  // .. or, where there is none, what all may send together.
  double limit(const PathKey& path) const;
  // Or nothing is known of it yet.
  bool IsNearby(const PathKey& path) const;
  // How long a path's next segment has to wait for the others of this host; 0: it may go.
  Duration Wait(const PathKey& path, TimePoint now);
  // `aside`: it is not of those that wait.
  void OnSent(const PathKey& path, double bytes, bool aside, TimePoint now);
  // A segment that is too large for small lanes went over any path of this peer; and whether none did for a while.
  void OnLargeSegment(PeerId self, TimePoint now) { large_segments_[self] = now; }
  bool IsQuiet(PeerId self, TimePoint now) const;
  // One path of a peer, or all.
  void Forget(PeerId self, std::optional<PeerId> other = std::nullopt);

 private:
  // What came in a tick.
  struct Tally {
    double delivered = 0;
    double resent = 0;
    Duration queueing{};  // at its end
    bool held = false;    // by the limit that is judged
  };
  // Adds ticks up; a RateLimit judges them when they lasted for long enough.
  class Measure {
   public:
    // Gives a window when it is full.
    std::optional<RateLimit::Window> Tick(TimePoint now, const Tally& tally, Duration round_trip, bool hasty);
    // Not backlogged: what is counted so far waits for the rest.
    void Pause() { busy_since_ = last_ = std::nullopt; }

   private:
    std::optional<TimePoint> busy_since_;
    std::optional<TimePoint> last_;  // counted until then
    Duration lasted_{};
    Tally sum_;
    int ticks_ = 0;
    int held_ticks_ = 0;
  };
  // A limit, and what it is judged by.
  struct Judged {
    Measure measure;
    RateLimit ceiling;

    void Tick(TimePoint now, const Tally& tally, Duration round_trip);
    void Rest();
  };
  struct Path {
    PathSample last;
    bool sampled = false;  // since the last Decide
    bool was_sampled = false;
    Tally tally;
    Judged judged;
  };

  static bool IsNearby(const PathSample& sample);
  static bool IsPaced(const PathSample& sample);
  static bool IsHeldBelow(const Path& path, double part);
  bool ArePathsTheLimit(const std::vector<Path*>& backlogged) const;
  // Gives how long the queue of all paths is.
  Duration JudgeUplink(TimePoint now, const std::vector<Path*>& backlogged);
  double BestPath() const;

  std::map<PathKey, Path> paths_;
  std::map<PeerId, TimePoint> large_segments_;  // the last of each peer
  Judged uplink_;
  UplinkShare uplink_pace_;
};

}  // namespace ringway::flow
