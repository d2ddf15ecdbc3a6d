// One recovery of a group: it collects the reports of members that have frozen, until it can decide who stays and from
// which view the next one starts. It exists from the loss of a member to that decision. Pure.
//
//   Take(report) from each member that matters --> Decide(): who stays (membership.h), and their reports
//
// Silence at the master alone drops nobody, for the master may be the one that is cut off. A member is dropped when
//
//   accused    another member, which the master hears, has lost it
//   replaced   its daemon is back as another process, or says that the peer is gone
//   expelled   its trainer hung for longer than the group allows, or an operator asked for it
//   silent     it does not answer during the recovery: for the detection time and `back` if at most half of the group
//              is unheard, for `grace` if more is. (A dead member is accused, and dropped sooner)
//
// While the master hears no member it decides nothing and these times do not pass.
//
// Threads: one. The group's peers, views and options must outlive it. The views change meanwhile only by Adopt.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>

#include "master/coordination/clique.h"
#include "master/coordination/group_options.h"
#include "master/coordination/group_peers.h"
#include "master/coordination/membership.h"
#include "master/coordination/view_chain.h"
#include "proto/clock.h"
#include "proto/control.pb.h"
#include "proto/ids.h"

namespace ringway {

// How a recovery ends.
struct Decision {
  control::View base;                         // the next view starts from this one
  std::set<PeerId> lost;                      // its members that go
  std::set<PeerId> hung;                      // those of them whose trainers hang
  std::set<PeerId> gone;                      // all peers that go: `lost`, and newcomers
  std::map<PeerId, control::Report> reports;  // of each member of the base that stays
};

class Recovery {
 public:
  Recovery(const GroupPeers& peers, const ViewChain& views, const GroupOptions& options, TimePoint now);

  // Returns whether a report that accuses nobody anew asks for a recovery all the same. A stale one about an earlier
  // view does not.
  static bool IsAskedFor(const control::Report& report, const control::View& current);

  // Members freeze at this epoch; older reports do not count.
  Epoch stop() const { return stop_; }
  // The peers that have to be asked for a report.
  const std::set<PeerId>& asked() const { return asked_; }

  // `accuses`: the report accuses a member for the first time.
  void Take(const control::Report& report, bool accuses, TimePoint now);
  // The master hears this peer's daemon again.
  void OnReturn(PeerId peer, TimePoint now);
  // The group calls this whenever the master begins or ceases to hear a peer, and with time.
  void NoteHearing(TimePoint now);
  // Returns nothing while more reports, or time, are needed. After a decision the recovery is over.
  std::optional<Decision> Decide(TimePoint now);

 private:
  // The view that the next one starts from.
  struct Base {
    control::View view;
    std::set<PeerId> members;                    // of `view`
    std::set<PeerId> gone;                       // members to drop, and others that are certainly gone
    std::uint64_t steps_left = kCliqueStepsMax;  // of the searches from this view
  };

  std::set<PeerId> InAnyView() const { return peers_.Known(views_.AllMembers()); }
  Base ChooseBase(TimePoint now) const;
  Epoch AdoptedBy(const control::Report& report) const;
  std::set<PeerId> WithTroubledNewcomers(const Base& base) const;
  std::set<PeerId> WhoHangsIn(const Base& base) const;
  bool HaveAllSpoken(const Base& base) const;
  bool IsReturning(PeerId peer, const std::set<PeerId>& accusers, TimePoint now) const;
  bool AccusedHaveSpoken(TimePoint now) const;
  Accusations Suspicions() const;
  bool IsDisputed(TimePoint now) const;
  // The newest view that any report says is installed; the current one if there is no report.
  const control::View& InForce() const;
  std::set<PeerId> Unheard() const;
  // More than half of the members are unheard.
  bool AreMostUnheard() const;
  bool HasWaitedFor(PeerId peer, TimePoint now) const;
  bool MostAreAwaited(TimePoint now) const;
  bool DropsForTheUnheard(const Base& base, TimePoint now) const;
  std::set<PeerId> Certain(TimePoint now) const;
  bool IsGoneSince(PeerId id) const;
  std::set<PeerId> Spoken() const;  // peers that have reported

  const GroupPeers& peers_;
  const ViewChain& views_;
  const GroupOptions& options_;
  const Epoch stop_;
  const TimePoint since_;
  const std::set<PeerId> asked_;
  TimePoint weighed_since_;                    // `since_`, or the last late accusation or first reconnect
  TimePoint accused_at_{};                     // the last accusation
  std::set<PeerId> returned_;                  // accused peers that reconnected meanwhile
  std::map<PeerId, control::Report> reports_;  // with stop >= stop_
  TimePoint most_unheard_{};                   // last time at which more than half were unheard
  std::optional<TimePoint> hears_since_;       // since when any peer of a view is heard; nothing: none is
};

}  // namespace ringway
