// Rate limits of one host: one for each path, and one for the uplink that the paths share. Pure: samples and the time
// go in, rates come out.
//
//   link: OnLinked(path): the path starts with what is remembered of its host (PathMemory)
//   tick: Add(sample) for each pair of the host --> Decide(now) --> rate(path) for each
//   segment: Wait(path) --> OnSent(path)
//   end: Forget(path): its limit is remembered
//
//   backlogged paths             judged                queueing delay is attributed to
//   one                          its RateLimit         that path
//   two or more                  theirs, the uplink's  the uplink: the minimum of all; each path: its excess
//   two or more whose limits     theirs                each path
//   sum to less than the uplink's
//
// A path without a limit is also judged while its lanes took all there was and congestion control holds it back: where
// the windows are large, as between two groups of the same hosts, bursts overflow the queue and nothing ever waits
// here.
//
// Losses of a path that is limited to under 0.8 of its fair share of the uplink are not the uplink's. The uplink's
// limit applies only while two or more pairs send, for only then is it measured. Until it is known it is assumed to be
// the rate of the fastest path, and grows from there.
//
// Window: two round trips, at least 200 ms; one round trip while the limit is unknown or assumed (slow start doubles
// the rate every round trip). It may be composed of several backlogged periods. The first round trip of each, with
// the queueing delay, does not count: nothing sent in it can have been acknowledged. Nearby paths (round trip below 1
// ms) are not limited, but by what the operator allows, which holds for all that leaves the host; they are measured
// for the planner, in windows of at least 200 ms.
//
// The uplink's windows are app-limited while it has no limit, unless all backlogged paths deliver well below what they
// carry alone: then the uplink is the bottleneck.
//
// What several paths share shows in none of them (PathModel): where more than one sends, or the uplink's limit holds
// them back, windows are app-limited. A path that delivers well below its bandwidth while another does not, and all of
// them well below the uplink's, is its own bottleneck: its windows, and losses, count.
//
// A path that is fast enough to end before its first window shows what it carried meanwhile.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "daemon/flow/pacing.h"
#include "daemon/flow/rate_limit.h"
#include "daemon/flow/traffic.h"
#include "proto/clock.h"
#include "proto/ids.h"

namespace ringway::flow {

class HostFlow {
 public:
  // `share`: see RateLimit.
  explicit HostFlow(std::uint32_t share = kShareDefault)
      : share_(share), memory_(share), uplink_(share), nearby_(share) {}

  // Sets the operator's limit on what this host sends to others, in bytes per second; 0 means none.
  void SetAllowed(double allowed) { uplink_share_.SetAllowed(allowed); }

  // Share of the uplink that background peers take while others send, more than 0 and less than 1.
  void SetBackgroundShare(double share) { uplink_share_.SetBackgroundShare(share); }
  // What this peer sends is background, until Forget.
  void SetBackground(PeerId self) { uplink_share_.SetBackground(self); }

  // The path leads to `host` (PathMemory), `round_trip` away. No effect if it is known already.
  void OnLinked(const PathKey& path, const std::string& host, Duration round_trip, TimePoint now);
  // A path without a sample at a tick counts as not backlogged.
  void Add(PeerId self, const PathSample& sample);
  void Decide(TimePoint now);
  // Returns the path's bandwidth if it was measured since the last call.
  Bandwidth TakeBandwidth(const PathKey& path);
  // What all paths carry together. It is measured where the uplink's limit is, or the uplink was the bottleneck.
  Bandwidth UplinkBandwidth() const;
  // The path's own limit in bytes per second; 0: unlimited. Valid until the next Decide.
  double rate(const PathKey& path) const;
  // Likewise, but the uplink's limit if the path has none and is not nearby.
  double limit(const PathKey& path) const;
  // Returns true for a path that was never sampled, too.
  bool IsNearby(const PathKey& path) const;
  // Returns how long the path's next segment has to wait for the uplink's rate; 0 if it may be sent.
  Duration Wait(const PathKey& path, TimePoint now);
  // `bypasses`: small-lane traffic, which is charged to the rate but did not wait.
  void OnSent(const PathKey& path, double bytes, bool bypasses, TimePoint now);
  // TCP has retransmitted `bytes` on any of the path's lanes.
  void OnResent(const PathKey& path, double bytes);
  // A segment too large for small lanes was sent on any path of this peer. IsQuiet: none was for 500 ms.
  void OnLargeSegment(PeerId self, TimePoint now) { large_segments_[self] = now; }
  bool IsQuiet(PeerId self, TimePoint now) const;
  // One path of a peer, or all of them. The next path to the same host starts with its limit.
  void Forget(PeerId self, std::optional<PeerId> other = std::nullopt);

 private:
  // A limit with its measurement.
  struct Judged {
    explicit Judged(std::uint32_t share) : rate_limit(share) {}

    BusyWindow window;
    RateLimit rate_limit;
    std::optional<TimePoint> judged_at;
    bool is_new = false;  // the bandwidth, since it was taken

    void Add(TimePoint now, const Traffic& tick, Duration round_trip, bool few_lanes);
    // `last`: of the tick in which it came to rest.
    void Rest(TimePoint now, const Traffic& last);
  };
  struct Path {
    explicit Path(std::uint32_t share) : judged(share) {}

    std::string host;      // empty: not known
    PathSample last;       // its traffic only while `sampled`
    bool sampled = false;  // since the last Decide
    Judged judged;
  };

  // Returns whether the uplink's rate does not hold for it.
  bool IsFree(const PathKey& path) const { return uplink_share_.allowed() <= 0 && IsNearby(path); }
  static bool IsNearby(const PathSample& sample);
  static bool IsPaced(const PathSample& sample);
  static bool IsLimitedBelow(const Path& path, double fair_share);
  // Returns whether its last two windows delivered well below its measured bandwidth.
  static bool FallsShort(const Path& path);
  static bool DoAllFallShort(const std::vector<Path*>& backlogged);
  // Returns whether the path, and not the uplink, holds its traffic back although others send, too.
  bool IsBottleneck(const Path& path, const std::vector<Path*>& backlogged) const;
  bool ArePathsTheLimit(const std::vector<Path*>& backlogged) const;
  // Returns the delays that are attributed to the uplink.
  struct Delays {
    Duration queueing{};
    Duration standing{};
  };
  Delays JudgeUplink(TimePoint now, const std::vector<Path*>& backlogged);
  void JudgeNearby(TimePoint now, const std::vector<Path*>& backlogged);
  double FastestPath() const;

  const std::uint32_t share_;
  std::map<PathKey, Path> paths_;
  PathMemory memory_;
  std::map<PeerId, TimePoint> large_segments_;  // when each peer sent its last one
  Judged uplink_;
  Judged nearby_;  // nearby paths together
  UplinkShare uplink_share_;
};

}  // namespace ringway::flow
