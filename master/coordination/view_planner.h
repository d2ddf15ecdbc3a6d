// The plans of one group's views (ring, routes, algorithms), from what its members have measured. Pure.
//
// A recovery keeps the ring, for it has no time to search. A better plan for the same members becomes a view of its own
// (Replan), which the members adopt by UpdateView.
//
// Threads: one. The options and the rates must outlive it.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "master/coordination/group_options.h"
#include "master/coordination/group_peers.h"
#include "master/planning/path_book.h"
#include "proto/clock.h"
#include "proto/control.pb.h"
#include "proto/ids.h"

namespace ringway {

class ViewPlanner {
 public:
  // `rates`: of the hosts of all groups.
  ViewPlanner(std::string group, bool fail_on_peer_loss, const GroupOptions& options, HostRates& rates);

  // `round_trip`: 0 if not known.
  void OnRoundTrip(PeerId peer, PeerId other, Duration round_trip) {
    (void)paths_.SetRoundTrip(peer, other, round_trip);
  }
  // A peer's measurement of a path or of its uplink. Impossible values are ignored.
  void OnMeasured(const control::Measured& measured, const GroupPeers& peers, TimePoint now);
  // A recovery has made a view that keeps the ring of the one before.
  void OnRecovered(TimePoint now);
  void Forget(PeerId peer) { paths_.Forget(peer); }

  // `before`: the new view keeps its plan as far as possible, and its min_world; empty if there is none. min_world is
  // the largest that any member so far has asked for. REQUIRES: the members are among the peers.
  control::View MakeView(Epoch epoch, const std::set<PeerId>& members, const GroupPeers& peers,
                         const control::View& before) const;
  // Returns the current view with a better plan, still under its epoch, once a burst of measurements has ended; nothing
  // if there is no better plan, or no news since the last call that looked for one.
  std::optional<control::View> Replan(const control::View& current, TimePoint now);
  // Returns the host that makes the group's large operations over twice as slow, as Replan has last found it.
  struct SlowPeer {
    PeerId peer;
    std::string name;  // its own, and its daemon's
    double ratio = 1;
  };
  const std::optional<SlowPeer>& slow_peer() const { return slow_peer_; }
  // Paths between the members of a view, in rank order. REQUIRES: it has members.
  PathMatrix PathsOf(const control::View& view) const;
  // What has been measured, as it was reported.
  const PathBook& measured() const { return paths_; }

 private:
  // Paths between members in rank order, with their prices.
  PathMatrix PathsBetween(const std::vector<control::PeerInfo>& members) const;
  // Returns the part of a plan that depends only on the distances between the members: no routes, no algorithms.
  control::Plan PlanFor(const PathMatrix& paths) const;
  void AddNews(TimePoint now);
  void LookForSlowHost(const PathMatrix& paths, const control::View& current);

  // Measurements have changed since the plan was made: since when, and when last.
  struct News {
    TimePoint since;
    TimePoint last;
  };

  const std::string group_;
  const bool fail_on_peer_loss_;
  const GroupOptions& options_;
  HostRates& rates_;
  PathBook paths_;
  std::optional<News> news_;
  std::optional<SlowPeer> slow_peer_;
};

}  // namespace ringway
