#include <algorithm>

#include "daemon/agreement/peer_impl.h"
#include "proto/check.h"
#include "proto/mutation.h"

namespace ringway::agreement {

// ---------------------------------------------------------------------------------------------- candidates

void Peer::Impl::OnCandidates(const control::Candidates& candidates, TimePoint now) {
  ctx_.now = now;
  if (!ctx_.views.installed()) ctx_.views.SetPlan(PlanFrom(candidates.plan()));
  forming_ = !candidates.formed();
  for (const control::PeerInfo& info : candidates.others()) links_.Want(PeerId(info.peer_id()), info.address());
  links_.PumpDials();
}

void Peer::Impl::OnForget(const control::Forget& forget, TimePoint) {
  for (const std::uint64_t other : forget.others()) {
    const PeerId peer(other);
    if (ctx_.view().Contains(peer)) continue;  // a member goes by a view, not by rumour
    DropLinks(peer);
  }
}

// ---------------------------------------------------------------------------------------------- freezing

// In one report: the master may decide on the first that it has.
void Peer::Impl::Accuse(const std::vector<PeerId>& others, const std::string& why) {
  if (ctx_.views.ended() || !ctx_.views.installed()) return;
  std::string names;
  for (const PeerId other : others) {
    if (!ctx_.view().Contains(other) || other == ctx_.self || !lost_.insert(other).second) continue;
    names += (names.empty() ? "" : ",") + ctx_.NameOf(other);
    ctx_.AddNote("peer_lost", "epoch=" + ToString(ctx_.view().epoch) + " " + ctx_.FieldsOf(other) + " why=" + why,
                 Severity::kWarning);
  }
  if (names.empty()) return;
  if (ctx_.views.frozen()) {
    SendReport("lost " + names);
  } else {
    Trouble("lost " + names + ": " + why);
  }
}

void Peer::Impl::Trouble(const std::string& reason) {
  if (!ctx_.views.installed() || ctx_.views.ended()) return;
  const Epoch epoch = ctx_.view().epoch;
  ctx_.AddNote("abort", "epoch=" + ToString(epoch) + " reason=" + reason, Severity::kWarning);
  if (!ctx_.views.frozen()) Freeze(epoch);
  control::PeerMessage abort;
  abort.mutable_abort()->set_epoch(epoch.value);
  links_.Broadcast(abort);
  SendReport(reason);
}

void Peer::Impl::OnAbort(Epoch epoch, TimePoint now) {
  ctx_.now = now;
  if (ctx_.views.ended() || epoch <= ctx_.views.stop()) return;
  if (RINGWAY_MUTANT(kIgnoreAbortAhead) && epoch > ctx_.view().epoch) return;
  Freeze(epoch);
  SendReport("abort of " + ToString(epoch));
}

// stop only grows. Running attempts are dropped; outcomes that exist stay.
void Peer::Impl::Freeze(Epoch epoch) {
  ctx_.views.Stop(epoch);
  if (ctx_.views.frozen()) laggards_.OnStop(ctx_.now);
  // Frames of a stopped epoch will never be used; their room belongs to the next view's eager window.
  held_.DropBelow(Epoch(ctx_.views.stop().value + 1));
  if (ctx_.views.frozen() && !RINGWAY_MUTANT(kCompleteWhileFrozen)) StopAll();
}

void Peer::Impl::StopAll() {
  for (auto& [name, op] : table_.ops()) Stop(op);
  for (const Serving& serving : serving_) attempts_.End(serving.attempt);
  serving_.clear();
}

void Peer::Impl::SendReport(const std::string& reason) {
  control::ToMaster message;
  control::Report& report = *message.mutable_report();
  report.set_peer(ctx_.self.value);
  report.set_stop(ctx_.views.stop().value);
  report.set_epoch(ctx_.view().epoch.value);
  for (const PeerId peer : lost_) report.add_lost(peer.value);
  report.set_leaving(leave_sent_);
  for (const auto& [name, op] : table_.ops()) *report.add_ops() = ReportOf(op);
  const OpName update{ChannelId(last_update_.channel()), last_update_.seq()};
  if (update.seq != 0 && table_.Find(update) == nullptr) *report.add_ops() = last_update_;
  SeqsTo(table_.FinishedUptoAll(), *report.mutable_finished_upto());
  SeqsTo(SubmittedSeqs(), *report.mutable_next_seq());
  if (ctx_.view().epoch == first_epoch_) SeqsTo(began_, *report.mutable_began());
  report.set_reason(reason);
  ctx_.SendToMaster(std::move(message));
}

void Peer::Impl::OnMasterBack(TimePoint) {
  if (ctx_.views.ended()) return;
  links_.ReportPairs();
  paths_.Repeat();
  if (ctx_.views.installed() && !ctx_.views.frozen()) SayInstalled();
  if (ctx_.views.stop().value != 0 && ctx_.views.frozen()) SendReport("the master is back");
}

// Who installs a view with a peer it has lost aborts that view too.
void Peer::Impl::AccuseMissing() {
  if (RINGWAY_MUTANT(kForgetOldLosses)) return;
  if (!lost_.empty()) Trouble("the view contains a lost peer");
  for (const PeerId member : ctx_.view().members) {
    if (member != ctx_.self && !links_.Knows(member)) Accuse({member}, "it was forgotten before the view began");
    links_.AccuseGone(member);
  }
}

// Whoever has been silent for almost as long as the first is missed with it: the master must learn at once that this
// peer hears nobody, before it weighs one accusation alone.
void Peer::Impl::AccuseSilent() {
  const auto is_news = [this](PeerId peer) { return ctx_.view().Contains(peer) && !lost_.contains(peer); };
  const Duration detect = ctx_.view().plan.detect;
  const std::vector<PeerId> first = links_.SilentFor(detect);
  if (std::none_of(first.begin(), first.end(), is_news)) return;
  Accuse(links_.SilentFor(std::max(detect / 2, detect - 2 * ctx_.view().plan.heartbeat)),
         "silent for " + std::to_string(detect.count() / 1000) + " ms");
}

// ---------------------------------------------------------------------------------------------- views

// A newcomer without a link is gone, or will be: who adopted it would only have to recover.
bool Peer::Impl::MayAdopt(Epoch epoch, const control::View& view) const {
  if (!to_take_back_.empty() && epoch >= *to_take_back_.begin()) return false;
  return std::all_of(view.members().begin(), view.members().end(), [this](const control::PeerInfo& info) {
    const PeerId peer(info.peer_id());
    return peer == ctx_.self || ctx_.view().Contains(peer) || links_.HasControl(peer);
  });
}

Epoch Peer::Impl::NewestPrepared() const {
  const auto newest = std::find_if(prepared_.rbegin(), prepared_.rend(),
                                   [this](const auto& entry) { return MayAdopt(entry.first, entry.second); });
  return newest == prepared_.rend() ? Epoch() : newest->first;
}

// An UpdateView that is open may have agreed on one of them: then this rank switches to it like the others.
void Peer::Impl::OnTakeBack(Epoch first) {
  if (ctx_.views.ended() || to_take_back_.size() >= kPreparedMax) return;
  to_take_back_.insert(first);
  if (!update_open_ || RINGWAY_MUTANT(kTakeBackAtOnce)) DropTakenBack();
}

void Peer::Impl::SayInstalled() {
  control::ToMaster message;
  message.mutable_installed()->set_peer(ctx_.self.value);
  message.mutable_installed()->set_epoch(ctx_.view().epoch.value);
  ctx_.SendToMaster(std::move(message));
}

void Peer::Impl::DropTakenBack() {
  for (const Epoch first : std::exchange(to_take_back_, {})) {
    prepared_.erase(prepared_.lower_bound(std::max(first, Epoch(ctx_.view().epoch.value + 1))), prepared_.end());
    if (ctx_.view().epoch >= first) {  // too late
      SayInstalled();
      continue;
    }
    control::ToMaster message;
    message.mutable_taken_back()->set_peer(ctx_.self.value);
    message.mutable_taken_back()->set_epoch(first.value);
    ctx_.SendToMaster(std::move(message));
  }
}

void Peer::Impl::OnView(const control::ViewFor& message, TimePoint now) {
  ctx_.now = now;
  if (ctx_.views.ended()) return;
  Result<View> view = ViewFrom(message.view(), ctx_.self);
  if (!view.ok()) {
    ctx_.AddNote("view_refused", view.status().text(), Severity::kWarning);
    return;
  }
  const Epoch epoch = view.value().epoch;
  if (message.prepared() && epoch == ctx_.view().epoch) return;  // said again to newcomers
  const bool old = epoch <= ctx_.view().epoch && !RINGWAY_MUTANT(kInstallOldView);
  if (old || (epoch <= ctx_.views.stop() && !RINGWAY_MUTANT(kInstallStoppedView))) {  // promised not to
    ctx_.AddNote("view_refused", "epoch=" + ToString(epoch) + " stop=" + ToString(ctx_.views.stop()),
                 Severity::kWarning);
    return;
  }
  for (const control::PeerInfo& info : view.value().infos) links_.Want(PeerId(info.peer_id()), info.address());
  if (message.prepared()) {
    prepared_[epoch] = message.view();
    TryActivate();
    return;
  }
  to_take_back_.clear();  // with all views that were prepared before this one
  if (!ctx_.views.installed()) Begin(epoch, SeqsFrom(message.view().next_seq()));
  for (auto& [name, op] : table_.ops()) {
    if (op.has_outcome()) continue;
    if (!RINGWAY_MUTANT(kKeepOldVerdict))
      op.fetching = false;  // without a verdict it is a retry, whatever an earlier verdict said
    if (op.attempt == 0) continue;
    ++op.retries;
    ++ctx_.counts.ops_retried;
  }
  Freeze(ctx_.view().epoch);  // whatever still runs belongs to the old view
  if (RINGWAY_MUTANT(kCompleteWhileFrozen)) StopAll();
  Install(std::move(view).value());
  ApplyVerdicts(message.view());
  AccuseMissing();
  if (ctx_.views.running()) StartAll();
}

void Peer::Impl::Install(View view) {
  const bool first = !ctx_.views.installed();
  for (const PeerId old : ctx_.view().members) {
    if (view.Contains(old)) continue;
    DropLinks(old);
    table_.ForgetPeer(old);
  }
  ctx_.views.Install(std::move(view));
  watchdog_.OnView(ctx_.now);
  laggards_.OnView(ctx_.view(), ctx_.now);
  schedules_.clear();
  table_.MarkAllDue();
  ready_.UnblockAll();
  std::erase_if(lost_, [&](PeerId peer) { return !ctx_.view().Contains(peer); });
  links_.OnView();
  // Views that are over stay a while: an UpdateView that adopted one may still have to be told.
  while (prepared_.size() > kPreparedMax && prepared_.begin()->first <= ctx_.view().epoch)
    prepared_.erase(prepared_.begin());
  held_.DropBelow(ctx_.view().epoch);
  early_ready_.clear();
  early_are_due_ = true;
  for (const PeerId member : ctx_.view().members) links_.Heard(member);
  std::string names;
  for (const PeerId member : ctx_.view().members) names += (names.empty() ? "" : ",") + ctx_.NameOf(member);
  ctx_.AddNote("view_installed",
               "epoch=" + ToString(ctx_.view().epoch) + " world=" + std::to_string(ctx_.view().world_size()) +
                   " rank=" + std::to_string(ctx_.view().RankOf(ctx_.self)->value) + " members=" + names);
  if (first) ctx_.Emit(Joined{ctx_.view().epoch, ctx_.view().RankOf(ctx_.self)->value, ctx_.view().world_size()});
}

void Peer::Impl::InstallPrepared(Epoch epoch) {
  const auto found = prepared_.find(epoch);
  if (found == prepared_.end() || epoch <= ctx_.view().epoch || epoch <= ctx_.views.stop()) return;
  Result<View> view = ViewFrom(found->second, ctx_.self);
  RINGWAY_CHECK(view.ok());  // checked when it came
  std::vector<PeerId> newcomers;
  for (const PeerId member : view.value().members) {
    if (!ctx_.view().Contains(member) && member != ctx_.self) newcomers.push_back(member);
  }
  const bool was_member = ctx_.views.installed();
  Install(std::move(view).value());
  SayInstalled();
  if (!was_member) return;
  control::PeerMessage activate;
  activate.mutable_activate()->set_epoch(epoch.value);
  SeqsTo(table_.NextSeqs(), *activate.mutable_activate()->mutable_next_seq());
  for (const PeerId newcomer : newcomers) links_.Send(newcomer, activate);
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
  if (ctx_.views.installed() || activated_.value == 0 || !prepared_.contains(activated_)) return;
  if (!RINGWAY_MUTANT(kNewcomerStartsAtOne)) Begin(activated_, activated_seqs_);
  InstallPrepared(activated_);
  AccuseMissing();
  if (ctx_.views.running()) StartAll();
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

// ---------------------------------------------------------------------------------------------- links

void Peer::Impl::DropLinks(PeerId other) {
  if (!links_.Knows(other)) return;
  DropFramesOf(other);
  links_.Forget(other);
  paths_.Forget(other);
}

void Peer::Impl::OnLinkUp(const LinkId& link, const LinkTerms& terms, TimePoint now) {
  ctx_.now = now;
  if (!links_.Knows(link.other)) return;
  if (ctx_.view().Contains(link.other)) watchdog_.Moved(now);
  if (links_.OnUp(link, terms)) paths_.OnStanding(link.other, terms.probe_bytes);
}

void Peer::Impl::OnLinkDown(const LinkId& link, const std::string& why, TimePoint now) {
  ctx_.now = now;
  if (!links_.Knows(link.other)) return;
  if (ctx_.view().Contains(link.other)) watchdog_.Moved(now);
  links_.OnDown(link, why);
}

void Peer::Impl::OnDialFailed(PeerId other, bool control, const Status& why, TimePoint now) {
  ctx_.now = now;
  if (links_.Knows(other)) links_.OnDialFailed(other, control, why);
}

void Peer::Impl::OnPathSamples(std::span<const flow::PathSample> samples, TimePoint now) {
  ctx_.now = now;
  if (ctx_.views.ended()) return;
  if (paths_.OnSamples(samples)) watchdog_.Moved(now);  // a segment takes long on a slow path
}

bool Peer::Impl::MayProbe() const {
  if (ctx_.views.ended() || leaving_ || !serving_.empty()) return false;
  if (ctx_.views.installed() ? ctx_.views.frozen() : !forming_) return false;
  return table_.untold() == 0;
}

void Peer::Impl::WantLanes(PeerId other, std::uint32_t lanes, TimePoint now) {
  ctx_.now = now;
  links_.WantLanes(other, lanes, links::Mesh::End::kHere);
}

// ---------------------------------------------------------------------------------------------- leaving, time

void Peer::Impl::Leave(TimePoint deadline, TimePoint now) {
  ctx_.now = now;
  if (ctx_.views.ended()) return;
  leave_deadline_ = leaving_ ? std::min(leave_deadline_, deadline) : deadline;
  leaving_ = true;
  TryLeave();
}

void Peer::Impl::Abandon(TimePoint now) { Leave(now, now); }

void Peer::Impl::TryLeave() {
  constexpr Duration kMasterAnswer = std::chrono::seconds(1);
  if (!leaving_ || ctx_.views.ended()) return;
  if (leave_sent_) {  // the master's Evicted ends it; without a master nobody else will
    if (ctx_.now >= leave_deadline_ + kMasterAnswer) End(Code::kLeft, "left the group without the master's word");
    return;
  }
  if (!ctx_.views.installed()) {
    control::ToMaster message;
    message.mutable_withdraw()->set_peer(ctx_.self.value);
    ctx_.SendToMaster(std::move(message));
    End(Code::kLeft, "left before the group was formed");
    return;
  }
  if (ctx_.now < leave_deadline_ && (!table_.ops().empty() || ctx_.views.frozen())) return;
  leave_sent_ = true;
  leave_deadline_ = ctx_.now;
  Freeze(ctx_.view().epoch);
  SendReport(modified_.empty() ? "leaving" : "its trainer wrote to a buffer in flight");
}

void Peer::Impl::OnEvicted(Code code, const std::string& text) {
  if (ctx_.views.ended()) return;
  const bool asked = leave_sent_ && (code == Code::kLeft || code == Code::kEvicted);
  End(asked ? Code::kLeft : code, text);
}

void Peer::Impl::EndWith(Code code, const std::string& text) {
  RINGWAY_CHECK(!ctx_.views.ended());
  for (auto& [name, op] : table_.ops()) {
    Stop(op);
    if (op.told) continue;
    op.outcome = {code, text, ctx_.view().epoch, {}, {}};
    Tell(op);
  }
  ctx_.views.End();
  ctx_.AddNote("peer_ended", std::string("code=") + ringway::NameOf(code) + " text=" + text);
  ctx_.Emit(Ended{code, text});
}

void Peer::Impl::Tick(TimePoint now) {
  ctx_.now = now;
  if (ctx_.views.ended()) return;
  // A gap in the own loop: the input of that time has just been handled, so silence is not yet the others' fault.
  if (now - last_tick_ > ctx_.view().plan.detect / 2) {
    links_.HeardAll();
    laggards_.BeginAnew(now);
  }
  last_tick_ = now;
  links_.ForgetOldLosses();
  links_.PumpDials();
  if (links_.IsHeartbeatDue()) links_.SendHeartbeats(Heartbeat());
  AccuseSilent();
  links_.RestartSilent();
  links_.AccuseBroken();
  WatchOperations();
  paths_.Tick(MayProbe());
  TryLeave();
}

PeerStatus Peer::Impl::GetStatus() const {
  PeerStatus status;
  static_cast<PeerCounts&>(status) = ctx_.counts;
  status.group = ctx_.group;
  status.self = ctx_.self;
  status.epoch = ctx_.view().epoch;
  status.frozen = ctx_.views.installed() && ctx_.views.frozen();
  if (const auto rank = ctx_.view().RankOf(ctx_.self)) status.rank = rank->value;
  status.members = ctx_.view().infos;
  for (const Rank rank : ctx_.view().routes.ring) status.ring.push_back(rank.value);
  status.shares = ctx_.view().routes.shares;
  status.ops_open = table_.untold();
  status.held_bytes = held_.bytes();
  status.retained_bytes = table_.retained_bytes();
  status.waits = waits_;
  return status;
}

}  // namespace ringway::agreement
