#include "master/coordination/group.h"

#include <algorithm>

#include "master/coordination/verdicts.h"
#include "master/planning/plan_times.h"
#include "proto/frame_codec.h"
#include "proto/local_abi.h"
#include "proto/mutation.h"
#include "proto/rules.h"

namespace ringway {
namespace {

constexpr std::size_t kViewBytesMax = kFrameBytesMax - 1024;  // room for the enclosing message

}  // namespace

Group::Group(std::string name, const control::JoinRequest& first, GroupOptions options, GroupSink& sink)
    : name_(std::move(name)),
      fail_on_peer_loss_(first.fail_on_peer_loss()),
      options_(std::move(options)),
      sink_(sink),
      peers_(name_),
      planner_(name_, fail_on_peer_loss_, options_, sink.rates()) {}

Group::Group(const record::Group& record, GroupOptions options, GroupSink& sink, TimePoint missed)
    : name_(record.name()),
      fail_on_peer_loss_(record.fail_on_peer_loss()),
      options_(std::move(options)),
      sink_(sink),
      peers_(record, missed),
      views_(record),
      planner_(name_, fail_on_peer_loss_, options_, sink.rates()) {}

record::Group Group::Record() const {
  record::Group record;
  record.set_name(name_);
  record.set_fail_on_peer_loss(fail_on_peer_loss_);
  views_.SaveTo(&record);
  peers_.SaveTo(&record, InAnyView());
  return record;
}

// ---------------------------------------------------------------------------------------------- joining

Status Group::CheckJoin(const control::JoinRequest& request) const {
  if (request.wait_world() > abi::kWorldSizeMax || request.min_world() > abi::kWorldSizeMax) {
    return {Code::kInvalidArgument, "wait_world and min_world are at most " + std::to_string(abi::kWorldSizeMax)};
  }
  if (request.fail_on_peer_loss() != fail_on_peer_loss_) {
    return {Code::kJoinRefused, "group " + name_ + " was formed with fail_on_peer_loss = " +
                                    (fail_on_peer_loss_ ? "true" : "false") + ": use the same on all peers"};
  }
  if (peers().size() >= abi::kWorldSizeMax) {
    return {Code::kJoinRefused, "group " + name_ + " has " + std::to_string(peers().size()) + " peers: it is full"};
  }
  for (const auto& [id, peer] : peers()) {
    if (!request.name().empty() && peer.info.name() == request.name()) {
      const Duration detect =
          views_.formed() ? std::chrono::milliseconds(current().plan().detect_ms()) : options_.detect;
      return {Code::kJoinRefused, "group " + name_ + " has a peer named " + request.name() +
                                      ": choose another name; if it is the same trainer before a restart, the group "
                                      "learns of its end within the detection time (" +
                                      SecondsText(detect) + "): join again then"};
    }
  }
  return Status::Ok();
}

void Group::Add(const control::PeerInfo& info, const control::JoinRequest& request, TimePoint now) {
  for (const auto& [other, peer] : peers()) SendCandidates(other, {info});
  const PeerId id(info.peer_id());
  SendCandidates(id, OthersThan(id));
  peers_.Add(info, request, now);
  Advance(now);
}

void Group::OnConnected(PeerId peer, PeerId other, Duration round_trip, TimePoint now) {
  if (!peers_.contains(peer) || !peers_.contains(other) || peer == other) return;
  RINGWAY_REACHED(kTakeConnected);
  planner_.OnRoundTrip(peer, other, round_trip);
  peers_.at(peer).standing.insert(other);
  peers_.at(peer).dial_errors.erase(other);
  Advance(now);
}

void Group::OnMeasured(const control::Measured& measured, TimePoint now) { planner_.OnMeasured(measured, peers_, now); }

void Group::OnDialFailed(PeerId peer, PeerId other, const std::string& text) {
  if (!peers_.contains(peer)) return;
  if (!peers_.contains(other)) return SendForget(peer, {other});  // dropped while `peer` or the master was away
  RINGWAY_REACHED(kTakeDialFailed);
  peers_.at(peer).dial_errors[other] = ClipText(text);
  peers_.at(peer).standing.erase(other);
  for (const PeerId one : {peer, other}) {
    if (views_.IsNewcomer(one)) RevokeViewsOf(one);
  }
  ExplainPendings();
}

// Idempotent: the receiver ignores what it knows already.
void Group::Resync(PeerId id) {
  if (!peers_.contains(id)) return;
  RINGWAY_REACHED(kResync);
  SendCandidates(id, OthersThan(id));
  if (views_.Members().contains(id)) SendView(current(), views_.current_was_prepared(), id);
  for (const auto& [epoch, view] : views_.prepared()) {
    const bool is_void = views_.revoking() && epoch >= *views_.revoking();
    if (!is_void && MembersOf(view).contains(id)) SendView(view, true, id);
  }
  if (views_.revoking()) SendRevokePrepared(id);
  if (recovery_ && recovery_->asked().contains(id)) SendAbort(id);
  peers_.at(id).explained.clear();
  ExplainPendings();
}

void Group::OnCounters(const control::PeerCounters& counters, TimePoint now) {
  const PeerId peer(counters.peer());
  const Billing billing{options_.pricing.list.get(), {&bill_, &sink_.bill()}, views_.Members().size()};
  if (peers_.contains(peer)) peers_.TakeCounters(CheckedCounters(counters), billing, now);
  if (history_.IsDue(now)) history_.Add(peers_.SampleOf(views_.Members(), now));
}

void Group::ExplainPendings() {
  const std::set<PeerId> members = views_.Members();
  for (const auto& [id, peer] : peers()) {
    if (members.contains(id)) continue;
    PendingReason why = peers_.WhyPending(id, views_);
    if (!sink_.MayChange(*this) && sink_.FailsToRecord()) {
      why = {Code::kMasterUnreachable,
             "the master cannot write its journal and changes no group until it can: see its log or status"};
    }
    if (why.text == peer.explained) continue;
    peers_.at(id).explained = why.text;
    control::FromMaster message;
    message.mutable_pending()->set_peer(id.value);
    message.mutable_pending()->set_code(static_cast<std::uint32_t>(why.code));
    message.mutable_pending()->set_text(std::move(why.text));
    sink_.Send(id, std::move(message));
  }
}

// ---------------------------------------------------------------------------------------------- losses

void Group::OnWithdraw(PeerId peer, TimePoint now) {
  if (!peers_.contains(peer)) return;
  peers_.Leave(peer);
  DropGone(peer, now);
}

void Group::OnReplaced(PeerId peer, TimePoint now) {
  if (!peers_.contains(peer) || RINGWAY_MUTANT(kKeepReplaced)) return;
  peers_.Replace(peer);
  DropGone(peer, now);
}

void Group::OnEvict(PeerId peer, const std::string& why, TimePoint now) {
  peers_.Expel(peer, why);
  DropGone(peer, now);
}

// Only the loss of a member starts a recovery. For a newcomer the views that contain it are revoked.
void Group::DropGone(PeerId peer, TimePoint now) {
  const bool is_newcomer = views_.IsNewcomer(peer);
  if (views_.Members().contains(peer) || (is_newcomer && RINGWAY_MUTANT(kAbortForNewcomer))) {
    RINGWAY_REACHED_IF(peers_.IsExpelled(peer), kExpelledGoes);
    RINGWAY_REACHED_IF(peers_.IsReplaced(peer), kReplacedGoes);
    if (!recovery_) BeginRecovery(now);
  } else {
    if (is_newcomer) RevokeViewsOf(peer);
    Drop({peer}, now);
    if (is_newcomer) sink_.Changed(*this);
  }
  Advance(now);
}

void Group::SetContact(PeerId id, Contact contact, TimePoint now) {
  if (!peers_.contains(id)) return;
  PeerState& peer = peers_.at(id);
  if (recovery_ && contact == Contact::kOnline && !peer.online()) recovery_->OnReturn(id, now);
  if (contact != peer.contact) peer.since = now;
  peer.contact = contact;
  if (recovery_) recovery_->NoteHearing(now);
  Advance(now);
}

void Group::Tick(TimePoint now) {
  if (recovery_) recovery_->NoteHearing(now);
  if (std::any_of(peers().begin(), peers().end(), [](const auto& entry) { return !entry.second.online(); })) {
    DropLostPendings(now);
    ForgetIfUnheard(now);
  }
  Progress(now);
}

// A peer outside the current view has no state to lose: its trainer waits, and joins as new when its daemon reconnects.
// A newcomer whose prepared view may have been adopted is dropped only after the members have said that it was not.
void Group::DropLostPendings(TimePoint now) {
  const std::set<PeerId> members = views_.Members();
  std::set<PeerId> gone;
  for (const auto& [id, peer] : peers()) {
    if (peer.online() || now - peer.since < options_.detect) continue;
    if (members.contains(id)) {
      if (RINGWAY_MUTANT(kSilenceIsDeath) && !recovery_) BeginRecovery(now);
    } else if (views_.IsNewcomer(id)) {
      if (RINGWAY_MUTANT(kAbortForNewcomer) && !recovery_) BeginRecovery(now);
      if (!recovery_) RevokeViewsOf(id);
    } else {
      RINGWAY_REACHED(kDropPending);
      gone.insert(id);
    }
  }
  if (!gone.empty()) Drop(gone, now, true);
}

void Group::ForgetIfUnheard(TimePoint now) {
  const Duration limit = RINGWAY_MUTANT(kForgetUnheard) ? options_.detect : options_.forget;
  const std::set<PeerId> all = InAnyView();
  const auto is_unheard = [&](PeerId id) {
    const PeerState& peer = peers_.at(id);
    return !peer.online() && now - peer.since >= limit;
  };
  if (!views_.formed() || !std::all_of(all.begin(), all.end(), is_unheard)) return;
  RINGWAY_REACHED(kForgetGroup);
  EndViews();
  sink_.Changed(*this);
  Drop(all, now);
}

void Group::Drop(const std::set<PeerId>& gone, TimePoint now, bool may_return) {
  std::vector<FormerPeer> formers;  // each names others
  for (const PeerId peer : gone) {
    FormerPeer& former = formers.emplace_back(peers_.Former(peer, now));
    const bool goes_on = peers().size() > gone.size();
    former.text = former.code == Code::kLeft ? "left the group"
                  : goes_on ? former.why + ", and group " + name_ + " went on: rejoin and take its state"
                            : former.why + ", and group " + name_ + " has no peers left: rejoin";
    control::FromMaster message;
    message.mutable_evicted()->set_peer(peer.value);
    message.mutable_evicted()->set_code(static_cast<std::uint32_t>(former.code));
    message.mutable_evicted()->set_text(former.text);
    message.mutable_evicted()->set_unknown(may_return && former.code != Code::kLeft);
    sink_.Send(peer, std::move(message));
  }
  for (FormerPeer& former : formers) {
    peers_.Erase(former.peer);
    planner_.Forget(former.peer);
    sink_.Retire(std::move(former));
  }
  if (gone.empty()) return;
  stirred_ = unexplained_ = true;
  for (const auto& [id, peer] : peers()) SendForget(id, gone);
}

// ---------------------------------------------------------------------------------------------- recovery

void Group::OnReport(const control::Report& report, TimePoint now) {
  const PeerId peer(report.peer());
  const std::set<PeerId> in_view = InAnyView();
  if (!in_view.contains(peer)) return;
  const bool accuses = peers_.AddAccusations(report, in_view, Epoch(current().epoch()));
  RINGWAY_REACHED_IF(report.leaving(), kLeaverGoes);
  const bool leaves = report.leaving() && peers_.Leave(peer);
  const bool news = accuses || leaves || Recovery::IsAskedFor(report, current());
  RINGWAY_REACHED_IF(!news, kSkipStaleReport);
  if (!news) return;
  RINGWAY_REACHED(kTakeReport);
  if (!recovery_) BeginRecovery(now);
  recovery_->Take(report, accuses, now);
  Advance(now);
}

void Group::BeginRecovery(TimePoint now) {
  views_.StopRevoking();  // superseded by the next view
  recovery_.emplace(peers_, views_, options_, now);
  for (const PeerId peer : recovery_->asked()) SendAbort(peer);
}

void Group::Apply(const Decision& decision, TimePoint now) {
  for (const PeerId peer : decision.hung) {
    RINGWAY_REACHED(kEvictHung);
    peers_.Expel(peer, "its trainer has submitted nothing for " + std::to_string(current().hung_ms()) +
                           " ms (evict_hung_after) while operations of the others waited for it");
  }
  std::set<PeerId> remaining;
  for (const auto& [peer, report] : decision.reports) remaining.insert(peer);
  std::set<PeerId> gone = decision.gone;
  EndViews();
  if (!remaining.empty()) {
    control::View next = planner_.MakeView(sink_.NextEpoch(), remaining, peers_, decision.base);
    AddVerdicts(decision, &next);
    if (next.ByteSizeLong() <= kViewBytesMax) {
      views_.Form(std::move(next));
    } else {  // no correct daemon reports that much
      for (const PeerId peer : remaining) peers_.Expel(peer, "the reports of its group were too large");
      gone.merge(remaining);
    }
  }
  planner_.OnRecovered(now);
  sink_.Changed(*this);
  SendViewToMembers(current(), false);
  Drop(gone, now);
}

void Group::AddVerdicts(const Decision& decision, control::View* next) {
  VerdictOptions options;
  std::string lost;
  for (const PeerId peer : decision.lost) {
    if (peers_.IsLeaving(peer) || !peers_.contains(peer)) continue;
    lost += (lost.empty() ? "" : ", ") + peers_.Label(peer);
  }
  if (fail_on_peer_loss_ && !lost.empty()) options.peer_lost = {Code::kPeerLost, "lost " + lost};
  const auto world = static_cast<std::uint32_t>(next->members_size());
  if (world < next->min_world()) {
    options.too_small = {Code::kWorldTooSmall, "the group has " + std::to_string(world) + " peers and needs " +
                                                   std::to_string(next->min_world()) +
                                                   ": call UpdateView, which lets in who waits, until it has them"};
  }
  for (control::Verdict& verdict : DecideVerdicts(decision.reports, options)) {
    if (CodeFromWire(verdict.code()) == Code::kInternal) sink_.CountContradiction();
    *next->add_verdicts() = std::move(verdict);
  }
  SetNextSequences(decision.reports, decision.base, next);
}

void Group::EndViews() {
  recovery_.reset();
  views_.Clear();
  stirred_ = true;
}

// ---------------------------------------------------------------------------------------------- views

void Group::Advance(TimePoint now) {
  stirred_ = true;
  unexplained_ = true;
  Progress(now);
}

void Group::Progress(TimePoint now) {
  if (sink_.MayChange(*this)) {
    if (recovery_) {
      if (const std::optional<Decision> decision = recovery_->Decide(now)) Apply(*decision, now);
    }
    if (!recovery_ && std::exchange(stirred_, false)) {
      unexplained_ = true;
      TryForm();
      TryPrepare();
    }
    if (!recovery_) TryReplan(now);
  }
  if (std::exchange(unexplained_, false)) ExplainPendings();
}

// An unreachable peer delays only peers that wait for as many.
void Group::TryForm() {
  if (views_.formed()) return;
  std::vector<PeerId> online;
  for (const auto& [id, peer] : peers()) {
    if (peer.online()) online.push_back(id);
  }
  const std::set<PeerId> members = peers_.LargestConnected(online, true);
  if (members.empty()) return;
  views_.Form(planner_.MakeView(sink_.NextEpoch(), members, peers_, {}));
  sink_.Changed(*this);
  SendViewToMembers(current(), false);
  for (const auto& [id, peer] : peers()) {
    if (!members.contains(id)) SendCandidates(id, OthersThan(id));  // the group has a view now
  }
}

// Admits as many as possible of the pendings that are connected to all members and newcomers.
void Group::TryPrepare() {
  if (!views_.formed() || views_.revoking()) return;
  std::set<PeerId> next = MembersOf(views_.Newest());
  std::vector<PeerId> reachable;
  for (const auto& [id, peer] : peers()) {
    if (next.contains(id) || !peer.online()) continue;
    const auto is_connected = [this, id = id](PeerId other) { return peers_.AreConnected(id, other); };
    if (std::all_of(next.begin(), next.end(), is_connected)) reachable.push_back(id);
  }
  if (reachable.empty()) return;
  next.merge(peers_.LargestConnected(reachable, false));
  const control::View view = planner_.MakeView(sink_.NextEpoch(), next, peers_, views_.Newest());
  views_.Prepare(view);
  sink_.Changed(*this);
  SendViewToMembers(view, true);
}

// A better plan is prepared only while no other view is.
void Group::TryReplan(TimePoint now) {
  if (!views_.prepared().empty() || views_.revoking()) return;
  std::optional<control::View> view = planner_.Replan(current(), now);
  sink_.OnPlanned(*this);
  if (!view) return;
  view->set_epoch(sink_.NextEpoch().value);
  views_.Prepare(*view);
  sink_.Changed(*this);
  SendViewToMembers(*view, true);
}

void Group::OnInstalled(PeerId peer, Epoch epoch, TimePoint now) {
  const std::set<PeerId> before = views_.Members();
  if (!views_.Adopt(epoch, peer)) return;
  sink_.Changed(*this);
  RINGWAY_REACHED(kAdoptPrepared);
  RINGWAY_REACHED_IF(views_.revoking().has_value(), kTakeBackLate);
  const std::set<PeerId> members = views_.Members();
  if (views_.revoking()) {  // too late: it was agreed on before. Remaining newcomers may have dropped it.
    views_.StopRevoking();
    for (const PeerId id : members) {
      if (!before.contains(id) && peers_.contains(id)) SendView(current(), true, id);
    }
    if (!views_.prepared().empty()) RevokePrepared(views_.prepared().begin()->first);
  }
  const bool lacks_one = std::any_of(members.begin(), members.end(), [&](PeerId id) { return !peers_.contains(id); });
  if (lacks_one && !recovery_) BeginRecovery(now);
  Advance(now);
}

// Later views contain the newcomers of earlier ones, so they become void, too.
void Group::RevokeViewsOf(PeerId newcomer) {
  for (const auto& [epoch, view] : views_.prepared()) {
    if (MembersOf(view).contains(newcomer)) return RevokePrepared(epoch);
  }
}

// Each member replies when it can no longer adopt these views: from then on it does not stamp them, so the minimum over
// all members cannot be one of them.
void Group::RevokePrepared(Epoch first) {
  if (recovery_) return;
  std::set<PeerId> awaited = peers_.Known(views_.Members());
  if (RINGWAY_MUTANT(kRevokeUnasked)) awaited = {*views_.Members().begin()};
  if (!views_.Revoke(first, std::move(awaited))) return;
  RINGWAY_REACHED(kRevokePrepared);
  for (const PeerId id : InAnyView()) SendRevokePrepared(id);
}

void Group::OnPreparedRevoked(PeerId peer, Epoch epoch, TimePoint now) {
  if (!views_.OnRevoked(peer, epoch)) return;
  sink_.Changed(*this);
  Advance(now);
}

// ---------------------------------------------------------------------------------------------- messages

void Group::SendCandidates(PeerId to, const std::vector<control::PeerInfo>& others) {
  control::FromMaster message;
  message.mutable_candidates()->set_peer(to.value);
  *message.mutable_candidates()->mutable_plan() = options_.plan;
  message.mutable_candidates()->set_formed(views_.formed());
  for (const control::PeerInfo& other : others) *message.mutable_candidates()->add_others() = other;
  sink_.Send(to, std::move(message));
}

std::vector<control::PeerInfo> Group::OthersThan(PeerId peer) const {
  std::vector<control::PeerInfo> others;
  for (const auto& [id, other] : peers()) {
    if (id != peer) others.push_back(other.info);
  }
  return others;
}

void Group::SendView(const control::View& view, bool prepared, PeerId to) {
  control::FromMaster message;
  message.mutable_view()->set_peer(to.value);
  message.mutable_view()->set_prepared(prepared);
  *message.mutable_view()->mutable_view() = view;
  sink_.Send(to, std::move(message));
}

void Group::SendViewToMembers(const control::View& view, bool prepared) {
  for (const PeerId peer : MembersOf(view)) SendView(view, prepared, peer);
}

void Group::SendAbort(PeerId to) {
  if (RINGWAY_MUTANT(kNoAbortFromMaster)) return;
  control::FromMaster message;
  message.mutable_abort()->set_peer(to.value);
  message.mutable_abort()->set_epoch(recovery_->stop().value);
  sink_.Send(to, std::move(message));
}

void Group::SendRevokePrepared(PeerId to) {
  control::FromMaster message;
  message.mutable_revoke_prepared()->set_peer(to.value);
  message.mutable_revoke_prepared()->set_epoch(views_.revoking()->value);
  sink_.Send(to, std::move(message));
}

void Group::SendForget(PeerId to, const std::set<PeerId>& gone) {
  control::FromMaster message;
  message.mutable_forget()->set_peer(to.value);
  for (const PeerId other : gone) message.mutable_forget()->add_others(other.value);
  sink_.Send(to, std::move(message));
}

}  // namespace ringway
