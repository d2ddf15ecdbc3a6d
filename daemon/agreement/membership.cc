#include "daemon/agreement/membership.h"

#include <algorithm>
#include <utility>

#include "proto/check.h"
#include "proto/mutation.h"
#include "proto/rules.h"

namespace ringway::agreement {

// ---------------------------------------------------------------------------------------------- candidates

void Membership::OnCandidates(const control::Candidates& candidates) {
  if (!ctx_.views.installed()) ctx_.views.SetPlan(PlanFrom(candidates.plan()));
  forming_ = !candidates.formed();
  if (!std::exchange(has_candidates_, true)) HoldForState(candidates);
  RINGWAY_REACHED(kOpenLinks);
  for (const control::PeerInfo& info : candidates.others()) links_.Want(info);
  links_.PumpDials();
}

// A newcomer takes the state before the master hears that it could be admitted: meanwhile nobody waits for it.
void Membership::HoldForState(const control::Candidates& candidates) {
  const bool has_members = !forming_ || RINGWAY_MUTANT(kHoldTheForming);
  if (!ctx_.options.takes_state || !has_members || candidates.others().empty()) return;
  links_.Hold();
  StateHeld held;
  for (const control::PeerInfo& info : candidates.others()) held.members.emplace_back(info.peer_id());
  ctx_.Emit(std::move(held));
}

// ---------------------------------------------------------------------------------------------- freezing

// All accusations are in one report, because the master may decide on the first report that it gets.
void Membership::Accuse(const std::vector<PeerId>& others, const std::string& why) {
  if (ctx_.views.ended() || !ctx_.views.installed()) return;
  std::string names;
  for (const PeerId other : others) {
    if (!ctx_.view().Contains(other) || other == ctx_.self || !lost_.insert(other).second) continue;
    names += (names.empty() ? "" : ",") + ctx_.NameOf(other);
    if (links_.Knows(other)) ctx_.durations.detection.Add(ctx_.now - links_.LastHeard(other));
    ctx_.AddNote("peer_lost",
                 LogFields{{"epoch", ToString(ctx_.view().epoch)}} + ctx_.FieldsOf(other) + LogFields{{"why", why}},
                 Severity::kWarning);
  }
  if (names.empty()) return;
  if (ctx_.views.frozen()) {
    SendReport("lost " + names);
  } else {
    RequestRecovery("lost " + names + ": " + why);
  }
}

void Membership::RequestRecovery(const std::string& reason) {
  if (!ctx_.views.installed() || ctx_.views.ended()) return;
  const Epoch epoch = ctx_.view().epoch;
  ctx_.AddNote("abort", {{"epoch", ToString(epoch)}, {"reason", reason}}, Severity::kWarning);
  if (!ctx_.views.frozen()) Freeze(epoch);
  control::PeerMessage abort;
  abort.mutable_abort()->set_epoch(epoch.value);
  links_.Broadcast(abort);
  SendReport(reason);
}

void Membership::OnAbort(Epoch epoch) {
  if (ctx_.views.ended() || epoch <= ctx_.views.stop()) return;
  if (RINGWAY_MUTANT(kIgnoreAbortAhead) && epoch > ctx_.view().epoch) return;
  Freeze(epoch);
  SendReport("abort of " + ToString(epoch));
}

// stop only grows. Running attempts are dropped; outcomes that exist stay.
void Membership::Freeze(Epoch epoch) {
  ctx_.views.Stop(epoch);
  listener_.OnStop();
}

void Membership::ActOnRequests() {
  const std::optional<std::string> trouble = ctx_.TakeRequest();
  if (trouble && ctx_.views.running()) RequestRecovery(*trouble);
}

void Membership::SendReport(const std::string& reason) {
  control::ToMaster message;
  control::Report& report = *message.mutable_report();
  report.set_peer(ctx_.self.value);
  report.set_stop(ctx_.views.stop().value);
  report.set_epoch(ctx_.view().epoch.value);
  for (const PeerId peer : lost_) report.add_lost(peer.value);
  for (const PeerId peer : links_.Suspects()) {
    if (!lost_.contains(peer)) report.add_suspected(peer.value);
  }
  report.set_leaving(departure_.reported);
  listener_.Describe(report);
  if (ctx_.view().epoch == first_.epoch) SeqsTo(first_.next, *report.mutable_began());
  report.set_reason(reason);
  ctx_.SendToMaster(std::move(message));
}

// A peer that installs a view with a peer that it has lost aborts that view, too.
void Membership::AccuseMissing() {
  if (RINGWAY_MUTANT(kForgetOldLosses)) return;
  RINGWAY_REACHED_IF(!lost_.empty(), kAbortViewOfLost);
  if (!lost_.empty()) RequestRecovery("the view contains a lost peer");
  for (const PeerId member : ctx_.view().members) {
    if (member != ctx_.self && !links_.Knows(member)) Accuse({member}, "it was forgotten before the view began");
    links_.AccuseGone(member);
  }
}

// Whoever has been silent for almost as long as the first is missed with it: the master must learn at once that this
// peer hears nobody, before it weighs one accusation alone.
void Membership::AccuseSilent() {
  const auto is_news = [this](PeerId peer) { return ctx_.view().Contains(peer) && !lost_.contains(peer); };
  const Duration detect = ctx_.view().plan.detect;
  const std::vector<PeerId> first = links_.SilentFor(detect);
  if (std::none_of(first.begin(), first.end(), is_news)) return;
  RINGWAY_REACHED(kAccuseSilent);
  Accuse(links_.SilentFor(links_.SuspicionTime()), "silent for " + std::to_string(detect.count() / 1000) + " ms");
}

// ---------------------------------------------------------------------------------------------- views

void Membership::OnMasterBack() {
  if (ctx_.views.installed() && !ctx_.views.frozen()) SayInstalled();
  RINGWAY_REACHED_IF(ctx_.views.stop().value != 0 && ctx_.views.frozen(), kReportAgain);
  if (ctx_.views.stop().value != 0 && ctx_.views.frozen()) SendReport("the master is back");
}

// A newcomer without a link is gone, or will be: who adopted it would only have to recover.
bool Membership::MayAdopt(const control::View& view) const {
  return std::all_of(view.members().begin(), view.members().end(), [this](const control::PeerInfo& info) {
    const PeerId peer(info.peer_id());
    return peer == ctx_.self || ctx_.view().Contains(peer) || links_.HasControl(peer);
  });
}

Epoch Membership::NewestPrepared() const {
  return prepared_.Newest([this](const control::View& view) { return MayAdopt(view); });
}

// An UpdateView that is open may have agreed on one of them: then this rank switches to it like the others.
void Membership::OnRevokePrepared(Epoch first) {
  if (ctx_.views.ended() || !prepared_.RevokePrepared(first)) return;
  if (!table_.update_is_open() || RINGWAY_MUTANT(kRevokeAtOnce)) DropRevoked();
}

void Membership::SayInstalled() {
  control::ToMaster message;
  message.mutable_installed()->set_peer(ctx_.self.value);
  message.mutable_installed()->set_epoch(ctx_.view().epoch.value);
  ctx_.SendToMaster(std::move(message));
}

void Membership::DropRevoked() {
  for (const Epoch first : prepared_.DropRevoked(ctx_.view().epoch)) {
    RINGWAY_REACHED(kDropTakenBack);
    if (ctx_.view().epoch >= first) {  // too late
      SayInstalled();
      continue;
    }
    control::ToMaster message;
    message.mutable_prepared_revoked()->set_peer(ctx_.self.value);
    message.mutable_prepared_revoked()->set_epoch(first.value);
    ctx_.SendToMaster(std::move(message));
  }
}

Membership::Change Membership::OnView(const control::ViewFor& message) {
  if (ctx_.views.ended()) return Change::kNone;
  Result<View> view = ViewFrom(message.view(), ctx_.self);
  if (!view.ok()) {
    ctx_.AddNote("view_refused", {{"text", view.status().text()}}, Severity::kWarning);
    return Change::kNone;
  }
  const Epoch epoch = view.value().epoch;
  if (epoch == ctx_.view().epoch) return Change::kNone;  // said again: to newcomers, or by a master that is back
  const bool old = epoch <= ctx_.view().epoch && !RINGWAY_MUTANT(kInstallOldView);
  if (old || (epoch <= ctx_.views.stop() && !RINGWAY_MUTANT(kInstallStoppedView))) {  // promised not to
    RINGWAY_REACHED(kRefuseView);
    ctx_.AddNote("view_refused", {{"epoch", ToString(epoch)}, {"stop", ToString(ctx_.views.stop())}},
                 Severity::kWarning);
    return Change::kNone;
  }
  for (const control::PeerInfo& info : view.value().infos) links_.Want(info);
  if (message.prepared()) {
    RINGWAY_REACHED(kKeepPrepared);
    prepared_.Add(epoch, message.view());
    listener_.OnPrepared(view.value());
    return TryActivate();
  }
  prepared_.KeepAll();
  if (!ctx_.views.installed()) Begin({epoch, SeqsFrom(message.view().next_seq())});
  Freeze(ctx_.view().epoch);  // whatever still runs belongs to the old view
  RINGWAY_REACHED(kInstallView);
  Install(std::move(view).value());
  return Change::kDecided;
}

void Membership::Install(View view) {
  const bool first = !ctx_.views.installed();
  const View before = ctx_.views.Install(std::move(view));
  std::erase_if(lost_, [&](PeerId peer) { return !ctx_.view().Contains(peer); });
  prepared_.OnView(ctx_.view().epoch);
  early_.OnView();
  listener_.OnInstalled(before);
  std::string names;
  for (const PeerId member : ctx_.view().members) names += (names.empty() ? "" : ",") + ctx_.NameOf(member);
  ctx_.AddNote("view_installed", {{"epoch", ToString(ctx_.view().epoch)},
                                  {"world", ctx_.view().world_size()},
                                  {"rank", ctx_.view().RankOf(ctx_.self)->value},
                                  {"members", names}});
  if (first) ctx_.Emit(Joined{ctx_.view().epoch, ctx_.view().RankOf(ctx_.self)->value, ctx_.view().world_size()});
}

void Membership::InstallPrepared(Epoch epoch) {
  const control::View* prepared = prepared_.Find(epoch);
  if (prepared == nullptr || epoch <= ctx_.view().epoch || epoch <= ctx_.views.stop()) return;
  Result<View> view = ViewFrom(*prepared, ctx_.self);
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

// Starts the operations of a newcomer in its first view.
void Membership::Begin(Beginning beginning) {
  first_ = std::move(beginning);
  table_.StartAt(first_.next);
}

Membership::Change Membership::OnActivate(const control::Activate& activate) {
  activated_ = {std::max(activated_.epoch, Epoch(activate.epoch())), SeqsFrom(activate.next_seq())};
  return TryActivate();
}

// A newcomer starts when it holds the prepared view and has heard from a member that it is in force.
Membership::Change Membership::TryActivate() {
  if (RINGWAY_MUTANT(kActivateAtOnce)) activated_.epoch = NewestPrepared();
  const bool may_start = activated_.epoch.value != 0 && prepared_.Find(activated_.epoch) != nullptr;
  if (ctx_.views.installed() || !may_start) return Change::kNone;
  RINGWAY_REACHED(kActivate);
  if (!RINGWAY_MUTANT(kNewcomerStartsAtOne)) Begin(activated_);
  InstallPrepared(activated_.epoch);
  return Change::kActivated;
}

// ---------------------------------------------------------------------------------------------- leaving

void Membership::Leave(TimePoint deadline) {
  if (ctx_.views.ended()) return;
  departure_.deadline = departure_.begun ? std::min(departure_.deadline, deadline) : deadline;
  departure_.begun = true;
  TryLeave();
}

// TryLeave does it, in this event or with the next Tick.
void Membership::LeaveAtOnce(Code code, std::string text) {
  departure_.begun = true;
  departure_.deadline = ctx_.now;
  if (departure_.cause.ok()) departure_.cause = Status(code, std::move(text));
}

void Membership::TryLeave() {
  constexpr Duration kMasterAnswer = std::chrono::seconds(1);
  if (!departure_.begun || ctx_.views.ended()) return;
  if (departure_.reported) {  // the master's Evicted ends it; without a master nobody else will
    RINGWAY_REACHED_IF(ctx_.now >= departure_.deadline + kMasterAnswer, kLeaveAlone);
    if (ctx_.now >= departure_.deadline + kMasterAnswer) End(Code::kLeft, "left the group without the master's word");
    return;
  }
  if (!ctx_.views.installed()) {
    control::ToMaster message;
    message.mutable_withdraw()->set_peer(ctx_.self.value);
    ctx_.SendToMaster(std::move(message));
    End(Code::kLeft, "left before the group was formed");
    return;
  }
  if (ctx_.now < departure_.deadline &&
      (table_.HasToFinish(ctx_.view()) || listener_.HasToFinish() || ctx_.views.frozen()))
    return;
  departure_.reported = true;
  departure_.deadline = ctx_.now;
  Freeze(ctx_.view().epoch);
  SendReport(departure_.cause.ok() ? "leaving" : departure_.cause.text());
}

void Membership::OnEvicted(Code code, const std::string& text) {
  if (ctx_.views.ended()) return;
  RINGWAY_REACHED(kEndEvicted);
  const bool asked = departure_.reported && (code == Code::kLeft || code == Code::kEvicted);
  End(asked ? Code::kLeft : code, text);
}

void Membership::End(Code code, const std::string& text) {
  RINGWAY_CHECK(!ctx_.views.ended());
  const Status& cause = departure_.cause;  // whatever else the leaving comes to
  const Ended ended{cause.ok() ? code : cause.code(), cause.ok() ? text : cause.text()};
  listener_.OnEnd(ended.code, ended.text);
  ctx_.views.End();
  ctx_.AddNote("peer_ended", {{"code", ringway::NameOf(ended.code)}, {"text", ended.text}});
  ctx_.Emit(ended);
}

}  // namespace ringway::agreement
