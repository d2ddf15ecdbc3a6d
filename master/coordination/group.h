// One group's membership: pending peers, the current view, prepared views, and the collection of reports that leads
// from a broken view to the next. Pure: the time is a parameter, messages come out as values.
//
//   forming --pendings that are all connected, as many as each of them waits for--> view E
//   view E  --an admissible newcomer, or a better plan-->  prepared P  --Installed(P) from a member-->  view P
//   view E  --Report from a member-->  collecting(stop)  --all reports that matter-->  view E' with verdicts
//   prepared P  --its newcomer is gone-->  taking back  --PreparedRevoked from all members-->  view E, nobody disturbed
//
// Silence at the master alone drops nobody, for the master may be the one that is cut off. A member is dropped when
//
//   accused    another member, which the master hears, has lost it
//   replaced   its daemon is back as another process, or says that the peer is gone
//   expelled   its trainer hung for longer than the group allows, or an operator asked for it
//   silent     it does not answer during a recovery: for the detection time and `back` if at most half of the group is
//              unheard, for `grace` if more is. (A dead member is accused, and dropped sooner)
//
// While the master hears no member it decides nothing and these times do not pass; after `forget` the group is deleted.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "master/coordination/clique.h"
#include "master/coordination/former_peers.h"
#include "master/coordination/group_record.pb.h"
#include "master/coordination/membership.h"
#include "master/planning/path_book.h"
#include "proto/clock.h"
#include "proto/control.pb.h"
#include "proto/ids.h"
#include "proto/result.h"

namespace ringway {

class Group;

// What a group needs from its coordinator.
class GroupHost {
 public:
  virtual ~GroupHost() = default;
  virtual Epoch NextEpoch() = 0;   // strictly increasing
  virtual HostRates& rates() = 0;  // of all groups
  virtual void Send(PeerId peer, control::FromMaster message) = 0;
  // The peer was dropped. The host fills in the fields about its daemon.
  virtual void Retire(FormerPeer former) = 0;
  virtual void CountContradiction() = 0;  // two members hold different outcomes of one operation
  // The views of this group changed: they are journaled before any later message to its peers is sent.
  virtual void Changed(const Group& group) = 0;
  // Returns false while an earlier change is not journaled yet.
  virtual bool MayChange(const Group& group) const = 0;
  // Returns whether writing the journal fails.
  virtual bool FailsToRecord() const = 0;
};

// State of the master's connection to a peer's daemon.
enum class Contact : std::uint8_t {
  kOnline,
  kClosed,  // closed by the daemon's host: the network works and the process is probably dead
  kSilent,  // silent, or the connection ended in another way: either side may be cut off
};

struct GroupOptions {
  control::Plan plan;
  Duration detect = std::chrono::milliseconds(3000);
  Duration detect_far = detect;             // for views whose members are far apart
  Duration back = std::chrono::seconds(3);  // time that a daemon needs to reconnect
  Duration grace = std::chrono::seconds(30);
  Duration forget = std::chrono::hours(1);
  Duration weigh = std::chrono::milliseconds(300);  // wait for contradicting accusations
};

class Group {
 public:
  Group(std::string name, const control::JoinRequest& first, GroupOptions options, GroupHost& host);
  // Restores a journaled group. Its peers are offline, which counts as silence only from `missed` on.
  Group(const record::Group& record, GroupOptions options, GroupHost& host, TimePoint missed);
  // The record for the journal; the coordinator fills in the members' daemons.
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
  void OnCounters(const control::PeerCounters& counters);
  // The peer's daemon has reconnected: resends everything that may have been lost on the old connection.
  void Resync(PeerId peer);
  // `now`: since when.
  void SetContact(PeerId peer, Contact contact, TimePoint now);
  void Tick(TimePoint now);
  // Tells each pending peer why it waits, if the reason has changed.
  void ExplainPendings();

  bool empty() const { return peers_.empty(); }
  const std::string& name() const { return name_; }

  struct PeerState {
    control::PeerInfo info;
    std::uint32_t wait_world = 1;
    std::uint32_t min_world = 1;
    std::uint32_t hung_ms = 0;
    Contact contact = Contact::kOnline;
    TimePoint since{};          // when `contact` began; in the future after a restart of the master
    std::set<PeerId> standing;  // peers with which it is connected, as this side reports
    std::map<PeerId, std::string> dial_errors;
    std::string told;  // the Pending text sent last
    control::PeerCounters counters;
    bool online() const { return contact == Contact::kOnline; }
  };
  const std::map<PeerId, PeerState>& peers() const { return peers_; }
  const control::View& current() const { return current_; }
  // Epoch of the newest prepared view; 0 if there is none.
  Epoch NewestPrepared() const { return prepared_.empty() ? Epoch() : prepared_.rbegin()->first; }
  // Paths between the members of the current view, in rank order. REQUIRES: there is one.
  PathMatrix CurrentPaths() const;
  bool collecting() const { return collection_.has_value(); }

 private:
  struct Collection {
    Epoch stop;
    TimePoint since;
    TimePoint weighed_since;                    // `since`, or the last late accusation or first reconnect
    TimePoint accused_at{};                     // the last accusation
    std::set<PeerId> returned{};                // accused peers that reconnected meanwhile
    std::map<PeerId, control::Report> reports;  // with stop >= the collection's
    std::set<PeerId> told;                      // addressees of the ABORT
    TimePoint most_unheard{};                   // last time at which more than half were unheard
    std::optional<TimePoint> hears_since;       // since when any peer of a view is heard; nothing: none is
  };
  // Void prepared views on which members may have agreed already: they stay in prepared_ until no member can adopt
  // them.
  struct Revocation {
    Epoch first;               // and all above
    std::set<PeerId> awaited;  // members that have not replied
  };
  // The view that the next one starts from.
  struct Base {
    control::View view;
    std::set<PeerId> members;                    // of `view`
    std::set<PeerId> gone;                       // members to drop, and others that are certainly gone
    std::uint64_t steps_left = kCliqueStepsMax;  // of the searches from this view
  };

  static std::set<PeerId> MembersOf(const control::View& view);
  std::set<PeerId> Members() const { return MembersOf(current_); }
  std::set<PeerId> InAnyView() const;
  const control::View& Newest() const;
  std::set<PeerId> Pendings() const;
  bool Stand(PeerId a, PeerId b) const;
  std::string Label(PeerId peer) const;

  // To be called after every event.
  void Advance(TimePoint now);
  // Makes every transition that is possible now, including those that depend on time alone.
  void Progress(TimePoint now);
  void TryForm();
  void TryPrepare();
  void TryReplan(TimePoint now);
  void AddNews(TimePoint now);
  // The largest subset that is fully connected; `as_wanted`: and as large as each of its peers waits for.
  std::set<PeerId> Together(const std::vector<PeerId>& ids, bool as_wanted) const;
  // Why a peer is pending.
  struct Reason {
    Code code = Code::kOk;  // kPeerUnreachable: it, or a peer that it has to reach, cannot be dialled
    std::string text;
  };
  Reason WhyPending(PeerId peer) const;
  void Collect(TimePoint now);
  void TryDecide(TimePoint now);
  Base ChooseBase(TimePoint now) const;
  Epoch AdoptedBy(const control::Report& report) const;
  std::set<PeerId> WithTroubledNewcomers(const Base& base) const;
  bool IsReturning(PeerId peer, const std::set<PeerId>& accusers, TimePoint now) const;
  bool AccusedHaveSpoken(TimePoint now) const;
  Accusations Suspicions() const;
  bool IsDisputed(TimePoint now) const;
  // One of them at least.
  bool AreAccused(const std::set<PeerId>& peers) const;
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
  std::set<PeerId> Spoken() const;  // peers that have reported to the collection
  void AddHung(Base* base);
  void Decide(const Base& base, TimePoint now);
  void AddVerdicts(const Base& base, const std::map<PeerId, control::Report>& reports);
  // `before`: its plan is kept as far as possible, and its min_world; empty if there is none. min_world is the largest
  // that any member so far has asked for.
  control::View MakeView(const std::set<PeerId>& members, const control::View& before);
  // Without routes and algorithms: what only depends on the distance between the members.
  control::Plan PlanFor(const PathMatrix& paths) const;
  void SendView(const control::View& view, bool prepared, PeerId to);
  void SendViewToMembers(const control::View& view, bool prepared);
  void SendCandidates(PeerId id);
  void SendAbort(PeerId id);           // REQUIRES: a collection runs
  bool IsNewcomer(PeerId peer) const;  // in a prepared view, not in the current one
  void RevokeViewsOf(PeerId newcomer);
  void RevokePrepared(Epoch first);
  void SendRevokePrepared(PeerId id);  // REQUIRES: views are being taken back
  void DropGone(PeerId peer, TimePoint now);
  void DropLostPendings(TimePoint now);
  void ForgetIfUnheard(TimePoint now);
  void NoteHearing(TimePoint now);  // REQUIRES: a collection runs
  void EndViews();
  // `may_return`: they were never members, and their daemons may join for them again.
  void Drop(const std::set<PeerId>& gone, TimePoint now, bool may_return = false);
  FormerPeer Former(PeerId peer, TimePoint now) const;
  std::string WhyGone(PeerId peer, TimePoint now) const;
  std::string Accusers(PeerId peer) const;
  void SendForget(PeerId to, const std::set<PeerId>& gone);
  void Erase(FormerPeer former);
  void SendTo(PeerId peer, control::FromMaster message) { host_.Send(peer, std::move(message)); }

  const std::string name_;
  const bool fail_on_peer_loss_;
  const GroupOptions options_;
  GroupHost& host_;
  std::map<PeerId, PeerState> peers_;        // members and pendings
  control::View current_;                    // epoch 0: none
  bool current_was_prepared_ = false;        // adopted by UpdateView, not decided by a recovery
  std::map<Epoch, control::View> prepared_;  // above current, ascending, each containing the one before
  std::optional<Revocation> revoking_;
  std::optional<Collection> collection_;
  bool stirred_ = true;      // events since TryForm and TryPrepare last ran
  bool unexplained_ = true;  // events since ExplainPendings last ran
  Accusations accusations_;
  std::set<PeerId> leaving_;
  std::set<PeerId> replaced_;               // members whose daemon was replaced by another process
  std::map<PeerId, std::string> expelled_;  // members to be dropped although their daemon is healthy, and why
  PathBook paths_;
  // Measurements have changed since the plan was made: since when, and when last.
  struct News {
    TimePoint since;
    TimePoint last;
  };
  std::optional<News> news_;
};

}  // namespace ringway
