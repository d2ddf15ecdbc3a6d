#include <algorithm>

#include "daemon/agreement/peer_impl.h"
#include "proto/check.h"
#include "proto/mutation.h"

namespace ringway::agreement {

// ---------------------------------------------------------------------------------------------- candidates

void Peer::Impl::OnCandidates(const control::Candidates& candidates, TimePoint now) {
  now_ = now;
  if (!installed()) view_.plan = PlanFrom(candidates.plan());
  forming_ = !candidates.formed();
  for (const control::PeerInfo& info : candidates.others()) mesh_.Want(PeerId(info.peer_id()), info.address());
  PumpDials();
}

void Peer::Impl::OnForget(const control::Forget& forget, TimePoint) {
  for (const std::uint64_t other : forget.others()) {
    const PeerId peer(other);
    if (view_.Contains(peer)) continue;  // a member goes by a view, not by rumour
    DropLinks(peer);
  }
}

// ---------------------------------------------------------------------------------------------- freezing

// In one report: the master may decide on the first that it has.
void Peer::Impl::Accuse(const std::vector<PeerId>& others, const std::string& why) {
  if (ended_ || !installed()) return;
  std::string names;
  for (const PeerId other : others) {
    if (!view_.Contains(other) || other == self_ || !lost_.insert(other).second) continue;
    names += (names.empty() ? "" : ",") + NameOf(other);
    AddNote("peer_lost", "epoch=" + ToString(view_.epoch) + " " + FieldsOf(other) + " why=" + why, Severity::kWarning);
  }
  if (names.empty()) return;
  if (frozen()) {
    SendReport("lost " + names);
  } else {
    Trouble("lost " + names + ": " + why);
  }
}

void Peer::Impl::Trouble(const std::string& reason) {
  if (!installed() || ended_) return;
  const Epoch epoch = view_.epoch;
  AddNote("abort", "epoch=" + ToString(epoch) + " reason=" + reason, Severity::kWarning);
  if (!frozen()) Freeze(epoch);
  control::PeerMessage abort;
  abort.mutable_abort()->set_epoch(epoch.value);
  Broadcast(abort);
  SendReport(reason);
}

void Peer::Impl::OnAbort(Epoch epoch, TimePoint now) {
  now_ = now;
  if (ended_ || epoch <= stop_) return;
  if (RINGWAY_MUTANT(kIgnoreAbortAhead) && epoch > view_.epoch) return;
  Freeze(epoch);
  SendReport("abort of " + ToString(epoch));
}

// stop only grows. Running attempts are dropped; outcomes that exist stay.
void Peer::Impl::Freeze(Epoch epoch) {
  stop_ = std::max(stop_, epoch);
  if (frozen()) laggards_.OnStop(now_);
  // Frames of a stopped epoch will never be used; their room belongs to the next view's eager window.
  held_.DropBelow(Epoch(stop_.value + 1));
  if (frozen() && !RINGWAY_MUTANT(kCompleteWhileFrozen)) StopAll();
}

void Peer::Impl::StopAll() {
  for (auto& [name, op] : table_.ops()) Stop(op);
  for (const Serving& serving : serving_) live_.erase(serving.attempt);
  serving_.clear();
}

void Peer::Impl::SendReport(const std::string& reason) {
  control::ToMaster message;
  control::Report& report = *message.mutable_report();
  report.set_peer(self_.value);
  report.set_stop(stop_.value);
  report.set_epoch(view_.epoch.value);
  for (const PeerId peer : lost_) report.add_lost(peer.value);
  report.set_leaving(leave_sent_);
  for (const auto& [name, op] : table_.ops()) *report.add_ops() = ReportOf(op);
  const OpName update{ChannelId(last_update_.channel()), last_update_.seq()};
  if (update.seq != 0 && table_.Find(update) == nullptr) *report.add_ops() = last_update_;
  SeqsTo(table_.FinishedUptoAll(), *report.mutable_finished_upto());
  for (const OpName& name : table_.FinishedBeyondAll()) {
    control::ChannelSeq& finished = *report.add_finished_beyond();
    finished.set_channel(name.channel.value);
    finished.set_seq(name.seq);
  }
  SeqsTo(SubmittedSeqs(), *report.mutable_next_seq());
  if (view_.epoch == first_epoch_) SeqsTo(began_, *report.mutable_began());
  report.set_reason(reason);
  ToMasterNow(std::move(message));
}

void Peer::Impl::OnMasterBack(TimePoint) {
  if (ended_) return;
  for (const PeerId peer : mesh_.StandingPeers()) ReportPair(peer);
  meter_.Repeat();
  ReportPaths();
  if (installed() && !frozen()) SayInstalled();
  if (stop_.value != 0 && frozen()) SendReport("the master is back");
}

// ---------------------------------------------------------------------------------------------- views

// A newcomer without a link is gone, or will be: who adopted it would only have to recover.
bool Peer::Impl::MayAdopt(Epoch epoch, const control::View& view) const {
  if (!to_take_back_.empty() && epoch >= *to_take_back_.begin()) return false;
  return std::all_of(view.members().begin(), view.members().end(), [this](const control::PeerInfo& info) {
    const PeerId peer(info.peer_id());
    return peer == self_ || view_.Contains(peer) || mesh_.HasControl(peer);
  });
}

Epoch Peer::Impl::NewestPrepared() const {
  const auto newest = std::find_if(prepared_.rbegin(), prepared_.rend(),
                                   [this](const auto& entry) { return MayAdopt(entry.first, entry.second); });
  return newest == prepared_.rend() ? Epoch() : newest->first;
}

// An UpdateView that is open may have agreed on one of them: then this rank switches to it like the others.
void Peer::Impl::OnTakeBack(Epoch first) {
  if (ended_ || to_take_back_.size() >= kPreparedMax) return;
  to_take_back_.insert(first);
  if (!update_open_ || RINGWAY_MUTANT(kTakeBackAtOnce)) DropTakenBack();
}

void Peer::Impl::SayInstalled() {
  control::ToMaster message;
  message.mutable_installed()->set_peer(self_.value);
  message.mutable_installed()->set_epoch(view_.epoch.value);
  ToMasterNow(std::move(message));
}

void Peer::Impl::DropTakenBack() {
  for (const Epoch first : std::exchange(to_take_back_, {})) {
    prepared_.erase(prepared_.lower_bound(std::max(first, Epoch(view_.epoch.value + 1))), prepared_.end());
    if (view_.epoch >= first) {  // too late
      SayInstalled();
      continue;
    }
    control::ToMaster message;
    message.mutable_taken_back()->set_peer(self_.value);
    message.mutable_taken_back()->set_epoch(first.value);
    ToMasterNow(std::move(message));
  }
}

void Peer::Impl::OnView(const control::ViewFor& message, TimePoint now) {
  now_ = now;
  if (ended_) return;
  Result<View> view = ViewFrom(message.view(), self_);
  if (!view.ok()) {
    AddNote("view_refused", view.status().text(), Severity::kWarning);
    return;
  }
  const Epoch epoch = view.value().epoch;
  if (message.prepared() && epoch == view_.epoch) return;  // said again to newcomers
  const bool old = epoch <= view_.epoch && !RINGWAY_MUTANT(kInstallOldView);
  if (old || (epoch <= stop_ && !RINGWAY_MUTANT(kInstallStoppedView))) {  // promised not to
    AddNote("view_refused", "epoch=" + ToString(epoch) + " stop=" + ToString(stop_), Severity::kWarning);
    return;
  }
  for (const control::PeerInfo& info : view.value().infos) mesh_.Want(PeerId(info.peer_id()), info.address());
  if (message.prepared()) {
    prepared_[epoch] = message.view();
    TryActivate();
    return;
  }
  to_take_back_.clear();  // with all views that were prepared before this one
  if (!installed()) Begin(epoch, SeqsFrom(message.view().next_seq()));
  for (auto& [name, op] : table_.ops()) {
    if (op.has_outcome()) continue;
    if (!RINGWAY_MUTANT(kKeepOldVerdict))
      op.fetching = false;  // without a verdict it is a retry, whatever an earlier verdict said
    if (op.attempt == 0) continue;
    ++op.retries;
    ++counts_.ops_retried;
  }
  Freeze(view_.epoch);  // whatever still runs belongs to the old view
  if (RINGWAY_MUTANT(kCompleteWhileFrozen)) StopAll();
  Install(std::move(view).value());
  ApplyVerdicts(message.view());
  AccuseMissing();
  if (running()) StartAll();
}

void Peer::Impl::Install(View view) {
  const bool first = !installed();
  for (const PeerId old : view_.members) {
    if (view.Contains(old)) continue;
    DropLinks(old);
    table_.ForgetPeer(old);
  }
  view_ = std::move(view);
  watchdog_.OnView(now_);
  laggards_.OnView(view_, now_);
  schedules_.clear();
  table_.MarkAllDue();
  ready_.UnblockAll();
  std::erase_if(lost_, [&](PeerId peer) { return !view_.Contains(peer); });
  link_losses_.clear();
  // Views that are over stay a while: an UpdateView that adopted one may still have to be told.
  while (prepared_.size() > kPreparedMax && prepared_.begin()->first <= view_.epoch) prepared_.erase(prepared_.begin());
  held_.DropBelow(view_.epoch);
  early_ready_.clear();
  early_are_due_ = true;
  for (const PeerId member : view_.members) mesh_.Heard(member, now_);
  std::string names;
  for (const PeerId member : view_.members) names += (names.empty() ? "" : ",") + NameOf(member);
  AddNote("view_installed", "epoch=" + ToString(view_.epoch) + " world=" + std::to_string(view_.world_size()) +
                                " rank=" + std::to_string(view_.RankOf(self_)->value) + " members=" + names);
  if (first) Emit(Joined{view_.epoch, view_.RankOf(self_)->value, view_.world_size()});
}

void Peer::Impl::InstallPrepared(Epoch epoch) {
  const auto found = prepared_.find(epoch);
  if (found == prepared_.end() || epoch <= view_.epoch || epoch <= stop_) return;
  Result<View> view = ViewFrom(found->second, self_);
  RINGWAY_CHECK(view.ok());  // checked when it came
  std::vector<PeerId> newcomers;
  for (const PeerId member : view.value().members) {
    if (!view_.Contains(member) && member != self_) newcomers.push_back(member);
  }
  const bool was_member = installed();
  Install(std::move(view).value());
  SayInstalled();
  if (!was_member) return;
  control::PeerMessage activate;
  activate.mutable_activate()->set_epoch(epoch.value);
  SeqsTo(table_.NextSeqs(), *activate.mutable_activate()->mutable_next_seq());
  for (const PeerId newcomer : newcomers) Send(newcomer, activate);
  AccuseMissing();
}

void Peer::Impl::Begin(Epoch epoch, const ChannelSeqs& seqs) {
  first_epoch_ = epoch;
  began_ = seqs;
  table_.StartAt(seqs);
}

// A newcomer starts when it holds the prepared view and has heard from a member that it is in force.
void Peer::Impl::TryActivate() {
  if (RINGWAY_MUTANT(kActivateAtOnce)) activated_ = NewestPrepared();
  if (installed() || activated_.value == 0 || !prepared_.contains(activated_)) return;
  if (!RINGWAY_MUTANT(kNewcomerStartsAtOne)) Begin(activated_, activated_seqs_);
  InstallPrepared(activated_);
  AccuseMissing();
  if (running()) StartAll();
}

void Peer::Impl::ApplyVerdicts(const control::View& view) {
  ahead_.clear();  // what still counts stands in this view
  for (const control::Verdict& verdict : view.verdicts()) {
    const OpName name{ChannelId(verdict.channel()), verdict.seq()};
    if (Operation* op = table_.Find(name)) {
      AdoptVerdict(*op, verdict);
    } else if (table_.IsFinished(name)) {
      SendDone(name);  // so that nobody waits for a rank that has forgotten it
    } else if (verdict.code() != 0 && !table_.IsTooFarAhead(name)) {
      ahead_[name] = verdict;
    }
  }
}

// ---------------------------------------------------------------------------------------------- leaving, time

void Peer::Impl::Leave(TimePoint deadline, TimePoint now) {
  now_ = now;
  if (ended_) return;
  leave_deadline_ = leaving_ ? std::min(leave_deadline_, deadline) : deadline;
  leaving_ = true;
  TryLeave();
}

void Peer::Impl::Abandon(TimePoint now) { Leave(now, now); }

void Peer::Impl::TryLeave() {
  constexpr Duration kMasterAnswer = std::chrono::seconds(1);
  if (!leaving_ || ended_) return;
  if (leave_sent_) {  // the master's Evicted ends it; without a master nobody else will
    if (now_ >= leave_deadline_ + kMasterAnswer) End(Code::kLeft, "left the group without the master's word");
    return;
  }
  if (!installed()) {
    control::ToMaster message;
    message.mutable_withdraw()->set_peer(self_.value);
    ToMasterNow(std::move(message));
    End(Code::kLeft, "left before the group was formed");
    return;
  }
  if (now_ < leave_deadline_ && (!table_.ops().empty() || frozen())) return;
  leave_sent_ = true;
  leave_deadline_ = now_;
  Freeze(view_.epoch);
  SendReport(modified_.empty() ? "leaving" : "its trainer wrote to a buffer in flight");
}

void Peer::Impl::OnEvicted(Code code, const std::string& text) {
  if (ended_) return;
  const bool asked = leave_sent_ && (code == Code::kLeft || code == Code::kEvicted);
  End(asked ? Code::kLeft : code, text);
}

void Peer::Impl::EndWith(Code code, const std::string& text) {
  RINGWAY_CHECK(!ended_);
  for (auto& [name, op] : table_.ops()) {
    Stop(op);
    if (op.told) continue;
    op.outcome = {code, text, view_.epoch, {}, {}};
    Tell(op);
  }
  ended_ = true;
  AddNote("peer_ended", std::string("code=") + ringway::NameOf(code) + " text=" + text);
  Emit(Ended{code, text});
}

void Peer::Impl::Tick(TimePoint now) {
  now_ = now;
  if (ended_) return;
  // A gap in the own loop: the input of that time has just been handled, so silence is not yet the others' fault.
  if (now - last_tick_ > view_.plan.detect / 2) {
    mesh_.HeardAll(now);
    laggards_.BeginAnew(now);
  }
  last_tick_ = now;
  if (now - losses_since_ > kLinkLossesTime) {
    losses_since_ = now;
    link_losses_.clear();
  }
  PumpDials();
  if (now - last_heartbeat_ >= view_.plan.heartbeat) SendHeartbeats();
  AccuseSilent();
  for (const PeerId silent : mesh_.SilentSince(now, view_.plan.detect)) {
    if (!view_.Contains(silent) && mesh_.HasControl(silent)) StartOver(silent);
  }
  AccuseBroken();
  WatchOperations();
  TickProbes();
  TryLeave();
}

std::string Peer::Impl::NameOf(PeerId peer) const {
  const auto rank = view_.RankOf(peer);
  if (!rank) return "peer " + ToString(peer);
  const std::string& name = view_.infos[rank->value].name();
  return name.empty() ? "peer " + ToString(peer) : name;
}

std::string Peer::Impl::FieldsOf(PeerId other) const {
  const auto rank = view_.RankOf(other);
  const std::string address = rank ? view_.infos[rank->value].address() : "";
  return "other=" + Word(NameOf(other)) + " other_id=" + ToString(other) +
         (address.empty() ? "" : " other_address=" + address);
}

PeerStatus Peer::Impl::GetStatus() const {
  PeerStatus status;
  static_cast<PeerCounts&>(status) = counts_;
  status.group = group_;
  status.self = self_;
  status.epoch = view_.epoch;
  status.frozen = installed() && frozen();
  if (const auto rank = view_.RankOf(self_)) status.rank = rank->value;
  status.members = view_.infos;
  for (const Rank rank : view_.routes.ring) status.ring.push_back(rank.value);
  status.shares = view_.routes.shares;
  status.ops_open = table_.untold();
  status.held_bytes = held_.bytes();
  status.retained_bytes = table_.retained_bytes();
  status.waits = waits_;
  return status;
}

}  // namespace ringway::agreement
