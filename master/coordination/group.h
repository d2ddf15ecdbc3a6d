// One group: the facade over its peers, its views, their plans and, while one runs, the recovery from a loss. It takes
// the events, makes the transitions between views, and sends what the group's peers have to hear. Pure: the time is a
// parameter, messages come out as values.
//
//   forming --pendings that are all connected, as many as each of them waits for--> view E
//   view E  --an admissible newcomer, or a better plan-->  prepared P  --Installed(P) from a member-->  view P
//   view E  --Report from a member-->  recovery --all reports that matter-->  view E' with verdicts
//   prepared P  --its newcomer is gone-->  revoking  --PreparedRevoked from all members-->  view E, nobody disturbed
//
//   GroupPeers    members and pendings, and what was heard of each
//   ViewChain     the current view and the prepared ones above it
//   ViewPlanner   what a view's ring, routes and algorithms are
//   Recovery      who stays when a member is lost (there: what drops a member)
//
// After no member was heard for `forget` the group is deleted.
//
// Threads: one. The host must outlive the group.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "master/coordination/former_peers.h"
#include "master/coordination/group_options.h"
#include "master/coordination/group_peers.h"
#include "master/coordination/group_record.pb.h"
#include "master/coordination/op_history.h"
#include "master/coordination/recovery.h"
#include "master/coordination/traffic_bill.h"
#include "master/coordination/view_chain.h"
#include "master/coordination/view_planner.h"
#include "proto/clock.h"
#include "proto/control.pb.h"
#include "proto/ids.h"
#include "proto/result.h"

namespace ringway {

class Group;

// What a group needs from its coordinator.
class GroupSink {
 public:
  virtual ~GroupSink() = default;
  virtual Epoch NextEpoch() = 0;    // strictly increasing
  virtual HostRates& rates() = 0;   // of all groups
  virtual TrafficBill& bill() = 0;  // likewise
  virtual void Send(PeerId peer, control::FromMaster message) = 0;
  // The peer was dropped. The host fills in the fields about its daemon.
  virtual void Retire(FormerPeer former) = 0;
  // Its slow_peer() may be another one.
  virtual void OnPlanned(const Group& group) = 0;
  virtual void CountContradiction() = 0;  // two members hold different outcomes of one operation
  // The views of this group changed: they are journaled before any later message to its peers is sent.
  virtual void Changed(const Group& group) = 0;
  // Returns false while an earlier change is not journaled yet.
  virtual bool MayChange(const Group& group) const = 0;
  // Returns whether writing the journal fails.
  virtual bool FailsToRecord() const = 0;
};

class Group {
 public:
  Group(std::string name, const control::JoinRequest& first, GroupOptions options, GroupSink& sink);
  // Restores a journaled group. Its peers are offline, which counts as silence only from `missed` on.
  Group(const record::Group& record, GroupOptions options, GroupSink& sink, TimePoint missed);
  // Returns the record for the journal; the coordinator fills in the members' daemons.
  record::Group Record() const;

  // kJoinRefused or kInvalidArgument if this peer cannot be added.
  Status CheckJoin(const control::JoinRequest& request) const;
  // REQUIRES: CheckJoin(request).ok().
  void Add(const control::PeerInfo& info, const control::JoinRequest& request, TimePoint now);

  // `round_trip`: 0 if not known.
  void OnConnected(PeerId peer, PeerId other, Duration round_trip, TimePoint now);
  // A peer's measurement of a path or of its uplink. Impossible values are ignored.
  void OnMeasured(const control::Measured& measured, TimePoint now);
  void OnDialFailed(PeerId peer, PeerId other, const std::string& text);
  void OnReport(const control::Report& report, TimePoint now);
  void OnInstalled(PeerId peer, Epoch epoch, TimePoint now);
  // Its daemon says that the peer is gone.
  void OnWithdraw(PeerId peer, TimePoint now);
  // Its daemon was replaced by another process, which does not have it.
  void OnReplaced(PeerId peer, TimePoint now);
  // It goes, for this reason. REQUIRES: it is one of peers().
  void OnEvict(PeerId peer, const std::string& why, TimePoint now);
  void OnPreparedRevoked(PeerId peer, Epoch epoch, TimePoint now);
  void OnCounters(const control::PeerCounters& counters, TimePoint now);
  // The peer's daemon has reconnected: resends everything that may have been lost on the old connection.
  void Resync(PeerId peer);
  // `now`: since when.
  void SetContact(PeerId peer, Contact contact, TimePoint now);
  void Tick(TimePoint now);
  // Sends each pending peer the reason why it waits, if that has changed.
  void ExplainPendings();

  bool empty() const { return peers_.all().empty(); }
  const std::string& name() const { return name_; }
  const std::map<PeerId, PeerState>& peers() const { return peers_.all(); }
  const control::View& current() const { return views_.current(); }
  // Epoch of the newest prepared view; 0 if there is none.
  Epoch NewestPrepared() const { return views_.prepared().empty() ? Epoch() : views_.prepared().rbegin()->first; }
  // Paths between the members of the current view, in rank order. REQUIRES: there is one.
  PathMatrix CurrentPaths() const { return planner_.PathsOf(current()); }
  // What has been measured of the paths between its peers, as it was reported.
  const PathBook& measured() const { return planner_.measured(); }
  const OpHistory& history() const { return history_; }
  // What its peers have sent, of whom this process has heard.
  const TrafficBill& traffic() const { return bill_; }
  const std::optional<ViewPlanner::SlowPeer>& slow_peer() const { return planner_.slow_peer(); }
  const Pricing& pricing() const { return options_.pricing; }
  // Returns whether a recovery runs.
  bool collecting() const { return recovery_.has_value(); }

 private:
  std::set<PeerId> InAnyView() const { return peers_.Known(views_.AllMembers()); }

  // The coordinator calls this after every event.
  void Advance(TimePoint now);
  // Makes every transition that is possible now, including those that depend on time alone.
  void Progress(TimePoint now);
  void TryForm();
  void TryPrepare();
  void TryReplan(TimePoint now);
  void BeginRecovery(TimePoint now);
  void Apply(const Decision& decision, TimePoint now);
  void AddVerdicts(const Decision& decision, control::View* next);
  void EndViews();

  void RevokeViewsOf(PeerId newcomer);
  void RevokePrepared(Epoch first);
  void DropGone(PeerId peer, TimePoint now);
  void DropLostPendings(TimePoint now);
  void ForgetIfUnheard(TimePoint now);
  // `may_return`: they were never members, and their daemons may join for them again.
  void Drop(const std::set<PeerId>& gone, TimePoint now, bool may_return = false);

  void SendView(const control::View& view, bool prepared, PeerId to);
  void SendViewToMembers(const control::View& view, bool prepared);
  void SendCandidates(PeerId to, const std::vector<control::PeerInfo>& others);
  void SendAbort(PeerId to);           // REQUIRES: a recovery runs
  void SendRevokePrepared(PeerId to);  // REQUIRES: views are being revoked
  void SendForget(PeerId to, const std::set<PeerId>& gone);
  std::vector<control::PeerInfo> OthersThan(PeerId peer) const;

  const std::string name_;
  const bool fail_on_peer_loss_;
  const GroupOptions options_;
  GroupSink& sink_;
  GroupPeers peers_;
  ViewChain views_;
  ViewPlanner planner_;
  std::optional<Recovery> recovery_;
  OpHistory history_;
  TrafficBill bill_;
  bool stirred_ = true;      // events since TryForm and TryPrepare last ran
  bool unexplained_ = true;  // events since ExplainPendings last ran
};

}  // namespace ringway
