// A peer's part in its group: which view it installs, when it freezes, what it reports, whom it accuses, how it leaves
// (view_state.h has the states).
//
//   trouble here, ABORT, loss -> Freeze -> report to the master -> the next view is decided
//   prepared view + an UpdateView's agreement, or a member's word to a newcomer -> installed without the master
//   Leave -> operations done, or the deadline -> frozen, leave reported -> evicted: ended
//
// Invariants: a view at or below max(epoch, stop) is never installed. Lost members are members of the view in force.
// Once it has reported that it leaves, every report says so; once it has ended it reports nothing.
//
// Ownership: the Peer's. What the stop, the start and the end of views mean for operations, frames and links that are
// gone is its listener's matter; the order of its calls is that of the events.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "daemon/agreement/context.h"
#include "daemon/agreement/early_messages.h"
#include "daemon/agreement/links.h"
#include "daemon/agreement/op_table.h"
#include "daemon/agreement/prepared_views.h"
#include "proto/clock.h"
#include "proto/control.pb.h"
#include "proto/ids.h"
#include "proto/result.h"

namespace ringway::agreement {

class Membership {
 public:
  class Listener {
   public:
    // Frames up to `stop` are of no more use, and while the view is frozen nothing runs.
    virtual void OnStop() = 0;
    virtual void OnInstalled(const View& before) = 0;
    // A view that an UpdateView may adopt.
    virtual void OnPrepared(const View& next) = 0;
    // Adds the operations to a report.
    virtual void Describe(control::Report& report) const = 0;
    // Operations that the trainer still waits for end like this. Nothing runs any more.
    virtual void OnEnd(Code code, const std::string& text) = 0;
    // Returns whether something is under way that others wait for.
    virtual bool HasToFinish() const = 0;

   protected:
    ~Listener() = default;
  };

  // All outlive it.
  Membership(Context& ctx, Links& links, OpTable& table, Listener& listener)
      : ctx_(ctx), links_(links), table_(table), listener_(listener) {}
  Membership(const Membership&) = delete;
  Membership& operator=(const Membership&) = delete;

  // ---- events
  void OnCandidates(const control::Candidates& candidates);
  // Says what a message installed; after any change AccuseMissing is due, and operations may start.
  enum class Change : std::uint8_t { kNone, kActivated, kDecided };
  [[nodiscard]] Change OnView(const control::ViewFor& message);
  // A member says that a prepared view is in force.
  [[nodiscard]] Change OnActivate(const control::Activate& activate);
  void OnAbort(Epoch epoch);
  // Prepared views from this one on are void: at once, or when the UpdateView that is open has ended.
  void OnRevokePrepared(Epoch first);
  void OnUpdateOver() { DropRevoked(); }
  void OnMasterBack();
  void OnEvicted(Code code, const std::string& text);
  void Leave(TimePoint deadline);
  // It leaves with the next TryLeave, and ends with `code`: kBufferModified if its trainer wrote to a buffer in flight,
  // kEvicted if it cannot keep up.
  void LeaveAtOnce(Code code, std::string text);
  void TryLeave();
  // At once. Its operations end with it.
  void End(Code code, const std::string& text);

  // ---- trouble
  // Accuses all in one report, because the master may decide on the first report that it gets. Peers that are no
  // members, or lost already, are skipped.
  void Accuse(const std::vector<PeerId>& others, const std::string& why);
  // Aborts a view that was installed with a peer that this rank has lost.
  void AccuseMissing();
  void AccuseSilent();
  // Starts a recovery after a loss or a fault seen here: freezes the view, notifies the master and every member.
  void RequestRecovery(const std::string& reason);
  // Starts the recoveries that the data path has asked for (Context::RequestRecoveryLater).
  void ActOnRequests();
  void SendReport(const std::string& reason);

  // ---- prepared views
  // Returns the newest view that a result may suggest and an UpdateView adopt, as far as this rank knows; epoch 0 if
  // there is none.
  Epoch NewestPrepared() const;
  const control::View* FindPrepared(Epoch epoch) const { return prepared_.Find(epoch); }
  void InstallPrepared(Epoch epoch);

  // ---- messages of views that are not installed here yet
  void AddEarly(PeerId from, const control::PeerMessage& message) { early_.Add(from, message); }
  void ForgetEarly(PeerId from) { early_.Forget(from); }
  // Those that may be of the view that was installed last, once.
  EarlyMessages::ByPeer TakeEarly() { return early_.Take(); }

  bool forming() const { return forming_; }  // the group has no view yet
  bool leaving() const { return departure_.begun; }
  // Returns why it leaves at once; Ok: it does not.
  const Status& leaves_at_once() const { return departure_.cause; }

 private:
  struct Beginning {  // of a newcomer
    Epoch epoch;
    ChannelSeqs next;
  };
  struct Departure {
    bool begun = false;
    bool reported = false;
    TimePoint deadline{};
    Status cause;  // of leaving at once
  };

  void HoldForState(const control::Candidates& candidates);
  void Freeze(Epoch epoch);
  void Install(View view);
  [[nodiscard]] Change TryActivate();
  void Begin(Beginning beginning);
  bool MayAdopt(const control::View& view) const;
  void DropRevoked();
  void SayInstalled();

  Context& ctx_;
  Links& links_;
  OpTable& table_;
  Listener& listener_;
  PreparedViews prepared_;
  EarlyMessages early_;
  Beginning activated_;  // members switched to this prepared view
  Beginning first_;      // its first view, and where its channels began in it
  std::set<PeerId> lost_;
  Departure departure_;
  bool forming_ = false;
  bool has_candidates_ = false;
};

}  // namespace ringway::agreement
