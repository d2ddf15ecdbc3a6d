// One group's membership: pending peers, the current view, prepared views, and the collection of reports that leads
// from a broken view to the next. Pure: the time is a parameter, messages come out as values.
//
//   forming --as many pendings that reach each other as each of them waits for--> view E
//   view E  --an admissible newcomer, or a better plan-->  prepared P  --Installed(P) from a member-->  view P
//   view E  --Report from a member-->  collecting(stop)  --all reports that matter-->  view E' with verdicts
//   prepared P  --its newcomer is gone-->  taking back  --TakenBack from all members-->  view E, nobody disturbed
//
// Silence at the master alone is nobody's death: it may be the master that is cut off. A member is dropped when
//   - another member, which the master hears, accuses it;
//   - its daemon is back as another process, or says that the peer is gone;
//   - the others have waited for its trainer for as long as the group allows, or an operator has asked for it;
//   - it does not answer during a recovery: for the view's detection time and `back` if at most half of the group is
//     unheard, for `grace` if more is. Who is dead is accused, and sooner: this time is for those whom only the master
//     does not hear.
// While the master hears no member it decides nothing and no time passes; after `forget` of that the group is no more.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

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

// What a group needs of the outside.
class GroupHost {
 public:
  virtual ~GroupHost() = default;
  virtual Epoch NextEpoch() = 0;  // above every epoch given before
  virtual void Send(PeerId peer, control::FromMaster message) = 0;
  // The peer is gone for good. Its daemon is the host's to add.
  virtual void Retire(FormerPeer former) = 0;
  virtual void CountContradiction() = 0;  // two members hold different outcomes of one operation
  // The views of this group changed: written down before anything that is sent to its peers from now on goes out.
  virtual void Changed(const Group& group) = 0;
  // Whether they may: an earlier change is not still waiting to be written down.
  virtual bool MayChange(const Group& group) const = 0;
  // Whether that is so because the writing fails.
  virtual bool FailsToRecord() const = 0;
};

// How the master stands with a peer's daemon.
enum class Contact : std::uint8_t {
  kOnline,
  kClosed,  // the daemon's host ended the connection: the network works and the process is likely to be gone
  kSilent,  // nothing is heard, or the connection ended in another way: either side may be cut off
};

struct GroupOptions {
  control::Plan plan;
  Duration detect = std::chrono::milliseconds(3000);
  Duration detect_far = detect;             // in views whose members are far apart
  Duration back = std::chrono::seconds(3);  // a daemon needs to connect again
  Duration grace = std::chrono::seconds(30);
  Duration forget = std::chrono::hours(1);
  Duration weigh = std::chrono::milliseconds(300);  // how long contradicting accusations are waited for
};

class Group {
 public:
  Group(std::string name, const control::JoinRequest& first, GroupOptions options, GroupHost& host);
  // As a former life of the master wrote it down. Its peers are offline, and nobody misses them before `missed`.
  Group(const record::Group& record, GroupOptions options, GroupHost& host, TimePoint missed);
  // What is written down; who speaks for a member is the coordinator's to add.
  record::Group Record() const;

  // kJoinRefused or kInvalidArgument if this peer cannot be taken.
  Status CheckJoin(const control::JoinRequest& request) const;
  // REQUIRES: CheckJoin(request).ok().
  void Add(const control::PeerInfo& info, const control::JoinRequest& request, TimePoint now);

  // `round_trip`: 0 if it is not known.
  void OnConnected(PeerId peer, PeerId other, Duration round_trip, TimePoint now);
  // What the speaker has measured of a path of its own, or of its uplink. Refused where it cannot be.
  void OnMeasured(const control::Measured& measured, TimePoint now);
  void OnDialFailed(PeerId peer, PeerId other, const std::string& text);
  void OnReport(const control::Report& report, TimePoint now);
  void OnInstalled(PeerId peer, Epoch epoch, TimePoint now);
  // Its daemon says that the peer is gone.
  void OnWithdraw(PeerId peer, TimePoint now);
  // Its daemon is back as another process, which does not have it.
  void OnReplaced(PeerId peer, TimePoint now);
  // An operator wants it gone. REQUIRES: it is one of peers().
  void OnEvict(PeerId peer, TimePoint now);
  void OnTakenBack(PeerId peer, Epoch epoch, TimePoint now);
  void OnCounters(const control::PeerCounters& counters);
  // The peer's daemon is back on a new connection; what was sent on the old one may be lost, so it is sent again.
  void Resync(PeerId peer);
  // The peer's daemon is connected or not, since when.
  void SetContact(PeerId peer, Contact contact, TimePoint now);
  void Tick(TimePoint now);
  // Tells the pendings why they wait, where that has changed.
  void ExplainPendings();

  bool empty() const { return peers_.empty(); }
  const std::string& name() const { return name_; }

  struct PeerState {
    control::PeerInfo info;
    std::uint32_t wait_world = 1;
    std::uint32_t min_world = 1;
    std::uint32_t hung_ms = 0;
    Contact contact = Contact::kOnline;
    TimePoint since{};          // when that began; still to come: a restarted master misses it from then on
    std::set<PeerId> standing;  // pairs seen whole from this side
    std::map<PeerId, std::string> dial_errors;
    std::string told;  // the Pending text sent last
    control::PeerCounters counters;
    bool online() const { return contact == Contact::kOnline; }
  };
  const std::map<PeerId, PeerState>& peers() const { return peers_; }
  const control::View& current() const { return current_; }
  // Of the newest view that waits for the members to adopt it; epoch 0 if none does.
  Epoch NewestPrepared() const { return prepared_.empty() ? Epoch() : prepared_.rbegin()->first; }
  // Between the members of the current view, in rank order. REQUIRES: there is one.
  PathMatrix CurrentPaths() const;
  bool collecting() const { return collection_.has_value(); }

 private:
  struct Collection {
    Epoch stop;
    TimePoint since;
    TimePoint weighed_since;                    // `since`, or the newest late accusation or first return
    std::set<PeerId> returned{};                // accused who came back meanwhile
    std::map<PeerId, control::Report> reports;  // with stop >= the collection's
    std::set<PeerId> told;                      // addressees of the ABORT
    TimePoint most_unheard{};                   // until when most were
    std::optional<TimePoint> hears_since;       // anybody in a view; nothing: it hears nobody
  };
  // Prepared views that are void and may have been agreed on already: prepared_ keeps them until no member can adopt
  // them.
  struct TakingBack {
    Epoch first;               // and all above
    std::set<PeerId> awaited;  // members that have not answered
  };
  // What the next view starts from.
  struct Base {
    control::View view;
    std::set<PeerId> members;  // its
    std::set<PeerId> gone;     // of the members, and others that are gone for sure
  };

  static std::set<PeerId> MembersOf(const control::View& view);
  std::set<PeerId> Members() const { return MembersOf(current_); }
  std::set<PeerId> InAnyView() const;
  const control::View& Newest() const;
  std::set<PeerId> Pendings() const;
  bool Stand(PeerId a, PeerId b) const;
  std::string Label(PeerId peer) const;

  // After anything that has happened.
  void Advance(TimePoint now);
  // What has become possible, by time alone too.
  void Progress(TimePoint now);
  void TryForm();
  void TryPrepare();
  void TryReplan(TimePoint now);
  void AddNews(TimePoint now);
  // The largest set of them that all stand with each other; `as_wanted`: and are as many as each waits for.
  std::set<PeerId> Together(const std::vector<PeerId>& ids, bool as_wanted) const;
  // What a peer that is no member is told.
  struct Reason {
    Code code = Code::kOk;  // kPeerUnreachable: it or somebody it has to reach cannot be dialled
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
  // The newest view that any report says is in force; the current one before there is a report.
  const control::View& InForce() const;
  std::set<PeerId> Unheard() const;
  // How long an unheard member is waited for.
  bool AreMostUnheard() const;
  bool HasWaitedFor(PeerId peer, TimePoint now) const;
  bool MostAreAwaited(TimePoint now) const;
  bool DropsForTheUnheard(const Base& base, TimePoint now) const;
  std::set<PeerId> Certain(TimePoint now) const;
  bool IsGoneSince(PeerId id) const;
  std::set<PeerId> Spoken() const;  // who has reported to the collection
  void AddHung(Base* base);
  void Decide(const Base& base, TimePoint now);
  void AddVerdicts(const Base& base, const std::map<PeerId, control::Report>& reports);
  // `before`: whose plan goes on as far as it can, and whose minimum stays; the empty view if there is none. The
  // minimum is the largest that any member so far has asked for.
  control::View MakeView(const std::set<PeerId>& members, const control::View& before);
  // By how far apart the members are.
  void SetDetection(const PathMatrix& paths, control::Plan* plan) const;
  void SendView(const control::View& view, bool prepared, PeerId to);
  void SendViewToMembers(const control::View& view, bool prepared);
  void SendCandidates(PeerId id);
  void SendAbort(PeerId id);           // REQUIRES: a collection runs
  bool IsNewcomer(PeerId peer) const;  // in a prepared view, not in the current one
  void TakeBackViewsOf(PeerId newcomer);
  void TakeBack(Epoch first);
  void SendTakeBack(PeerId id);  // REQUIRES: views are being taken back
  void DropGone(PeerId peer, TimePoint now);
  void DropLostPendings(TimePoint now);
  void ForgetIfUnheard(TimePoint now);
  void NoteHearing(TimePoint now);  // REQUIRES: a collection runs
  void EndViews();
  // `may_return`: never members, they only wait, and their daemons may join for them again.
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
  bool current_was_prepared_ = false;        // its members switched to it by themselves
  std::map<Epoch, control::View> prepared_;  // above current, ascending, each containing the one before
  std::optional<TakingBack> taking_back_;
  std::optional<Collection> collection_;
  bool stirred_ = true;      // something has happened since views were last tried
  bool unexplained_ = true;  // .. since pendings were last told why they wait
  Accusations accusations_;
  std::set<PeerId> leaving_;
  std::set<PeerId> replaced_;               // members whose daemon is another process now
  std::map<PeerId, std::string> expelled_;  // who goes although nothing is wrong with its daemon, and why
  PathBook paths_;
  // What the plan was made from has changed: since when, and when last.
  struct News {
    TimePoint since;
    TimePoint last;
  };
  std::optional<News> news_;
};

}  // namespace ringway
