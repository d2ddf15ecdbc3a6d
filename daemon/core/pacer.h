// What each pair of this host may send, so that together they do not overdrive a path or the uplink. Pure: samples and
// the time go in, rates come out.
//
// A path that is backlogged is judged window by window by its own Ceiling; while two or more are, all together by the
// uplink's: then a queue that all of them see is the uplink's, and only what one sees beyond it is that path's own. The
// uplink's limit is dealt to the backlogged paths in equal parts; what a path's own limit leaves of its part goes to
// the others. It holds for two and more only, for only then is it judged. A path that is not backlogged may begin with
// the part that it would get by joining in.
//
//   tick: Add(samples of one peer) ... of all peers of the host --> Decide(now) --> rate(path) for each
//
// A window lasts for two round trips, 200 ms at least, but for one while there is no limit yet: fresh connections
// double their rate every round trip. What comes less than one round trip after the path came to be backlogged does not
// count: before, nothing that was sent can have been acknowledged. A window may be of several such times. Paths within
// a site (round trips below 1 ms) are left alone.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "daemon/core/ceiling.h"
#include "daemon/core/path_meter.h"
#include "proto/clock.h"
#include "proto/ids.h"

namespace ringway::core {

struct PathKey {
  PeerId self;
  PeerId other;
  friend auto operator<=>(const PathKey&, const PathKey&) = default;
};

class Pacer {
 public:
  // A path that is not sampled at a tick is not backlogged at it.
  void Add(PeerId self, const PathSample& sample);
  void Decide(TimePoint now);
  // Bytes per second; 0: as fast as it goes. Holds until the next Decide.
  double rate(const PathKey& path) const;
  // One path of a peer, or all.
  void Forget(PeerId self, std::optional<PeerId> other = std::nullopt);

 private:
  // What came in a tick.
  struct Tally {
    double delivered = 0;
    double resent = 0;
    Duration queueing{};  // at its end
    bool held = false;
  };
  // Adds ticks up; a Ceiling judges them when they lasted for long enough.
  class Measure {
   public:
    // Gives a window when it is full.
    std::optional<Ceiling::Window> Tick(TimePoint now, const Tally& tally, Duration round_trip, bool hasty);
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
  struct Path {
    PathSample last;
    bool sampled = false;  // since the last Decide
    bool was_sampled = false;
    Tally tally;
    Measure measure;
    Ceiling ceiling;
    double rate = 0;
  };

  static bool IsNearby(const PathSample& sample);
  static bool IsPaced(const PathSample& sample);
  void JudgeUplink(TimePoint now, const std::vector<Path*>& backlogged);
  void Deal(std::vector<Path*> backlogged);

  std::map<PathKey, Path> paths_;
  Measure uplink_measure_;
  Ceiling uplink_;
};

}  // namespace ringway::core
