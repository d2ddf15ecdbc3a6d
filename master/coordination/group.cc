#include "master/coordination/group.h"

#include <algorithm>

#include "master/coordination/clique.h"
#include "master/coordination/verdicts.h"
#include "master/planning/plan_times.h"
#include "proto/local_abi.h"
#include "proto/mutation.h"
#include "proto/rules.h"

namespace ringway {

Group::Group(std::string name, const control::JoinRequest& first, GroupOptions options, GroupHost& host)
    : name_(std::move(name)),
      fail_on_peer_loss_(first.fail_on_peer_loss()),
      options_(std::move(options)),
      host_(host) {}

Group::Group(const record::Group& record, GroupOptions options, GroupHost& host, TimePoint missed)
    : name_(record.name()),
      fail_on_peer_loss_(record.fail_on_peer_loss()),
      options_(std::move(options)),
      host_(host),
      current_(record.current()),
      current_was_prepared_(record.current_was_prepared()) {
  for (const control::View& view : record.prepared()) prepared_[Epoch(view.epoch())] = view;
  for (const record::Member& member : record.members()) {
    PeerState& peer = peers_[PeerId(member.info().peer_id())];
    peer.info = member.info();
    peer.wait_world = member.wait_world();
    peer.min_world = member.min_world();
    peer.hung_ms = member.hung_ms();
    peer.contact = Contact::kSilent;
    peer.since = missed;
  }
}

record::Group Group::Record() const {
  record::Group record;
  record.set_name(name_);
  record.set_fail_on_peer_loss(fail_on_peer_loss_);
  *record.mutable_current() = current_;
  record.set_current_was_prepared(current_was_prepared_);
  for (const auto& [epoch, view] : prepared_) *record.add_prepared() = view;
  for (const PeerId id : InAnyView()) {
    const PeerState& peer = peers_.at(id);
    record::Member& member = *record.add_members();
    *member.mutable_info() = peer.info;
    member.set_wait_world(peer.wait_world);
    member.set_min_world(peer.min_world);
    member.set_hung_ms(peer.hung_ms);
  }
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
  if (peers_.size() >= abi::kWorldSizeMax) {
    return {Code::kJoinRefused, "group " + name_ + " has " + std::to_string(peers_.size()) + " peers: it is full"};
  }
  for (const auto& [id, peer] : peers_) {
    if (!request.name().empty() && peer.info.name() == request.name()) {
      const Duration detect =
          current_.epoch() == 0 ? options_.detect : std::chrono::milliseconds(current_.plan().detect_ms());
      return {Code::kJoinRefused, "group " + name_ + " has a peer named " + request.name() +
                                      ": choose another name; if it is the same trainer before a restart, the group "
                                      "learns of its end within the detection time (" +
                                      SecondsText(detect) + "): join again then"};
    }
  }
  return Status::Ok();
}

void Group::Add(const control::PeerInfo& info, const control::JoinRequest& request, TimePoint now) {
  const PeerId id(info.peer_id());
  for (const auto& [other, peer] : peers_) {
    control::FromMaster one;
    one.mutable_candidates()->set_peer(other.value);
    *one.mutable_candidates()->mutable_plan() = options_.plan;
    *one.mutable_candidates()->add_others() = info;
    one.mutable_candidates()->set_formed(current_.epoch() != 0);
    SendTo(other, std::move(one));
  }
  SendCandidates(id);
  PeerState& state = peers_[id];
  state.info = info;
  state.wait_world = std::max(1u, request.wait_world());
  state.min_world = std::max(1u, request.min_world());
  state.hung_ms = request.hung_ms();
  state.since = now;
  Advance(now);
}

void Group::SendCandidates(PeerId id) {
  control::FromMaster message;
  message.mutable_candidates()->set_peer(id.value);
  *message.mutable_candidates()->mutable_plan() = options_.plan;
  message.mutable_candidates()->set_formed(current_.epoch() != 0);
  for (const auto& [other, peer] : peers_) {
    if (other != id) *message.mutable_candidates()->add_others() = peer.info;
  }
  SendTo(id, std::move(message));
}

// Idempotent: the receiver ignores what it knows already.
void Group::Resync(PeerId id) {
  const auto found = peers_.find(id);
  if (found == peers_.end()) return;
  RINGWAY_REACHED(kResync);
  SendCandidates(id);
  if (Members().contains(id)) SendView(current_, current_was_prepared_, id);
  for (const auto& [epoch, view] : prepared_) {
    const bool is_void = revoking_ && epoch >= revoking_->first;
    if (!is_void && MembersOf(view).contains(id)) SendView(view, true, id);
  }
  if (revoking_) SendRevokePrepared(id);
  if (collection_ && collection_->told.contains(id)) SendAbort(id);
  found->second.told.clear();
  ExplainPendings();
}

void Group::OnConnected(PeerId peer, PeerId other, Duration round_trip, TimePoint now) {
  if (!peers_.contains(peer) || !peers_.contains(other) || peer == other) return;
  RINGWAY_REACHED(kTakeConnected);
  (void)paths_.SetRoundTrip(peer, other, round_trip);
  peers_[peer].standing.insert(other);
  peers_[peer].dial_errors.erase(other);
  Advance(now);
}

void Group::OnDialFailed(PeerId peer, PeerId other, const std::string& text) {
  if (!peers_.contains(peer)) return;
  if (!peers_.contains(other)) return SendForget(peer, {other});  // dropped while `peer` or the master was away
  RINGWAY_REACHED(kTakeDialFailed);
  peers_[peer].dial_errors[other] = ClipText(text);
  peers_[peer].standing.erase(other);
  for (const PeerId one : {peer, other}) {
    if (IsNewcomer(one)) RevokeViewsOf(one);
  }
  ExplainPendings();
}

bool Group::Stand(PeerId a, PeerId b) const {
  return peers_.at(a).standing.contains(b) && peers_.at(b).standing.contains(a);
}

void Group::OnWithdraw(PeerId peer, TimePoint now) {
  if (!peers_.contains(peer)) return;
  leaving_.insert(peer);
  DropGone(peer, now);
}

void Group::OnReplaced(PeerId peer, TimePoint now) {
  if (!peers_.contains(peer) || RINGWAY_MUTANT(kKeepReplaced)) return;
  replaced_.insert(peer);
  DropGone(peer, now);
}

void Group::OnEvict(PeerId peer, const std::string& why, TimePoint now) {
  expelled_[peer] = why;
  DropGone(peer, now);
}

// Only the loss of a member starts a recovery. For a newcomer the views that contain it are taken back.
void Group::DropGone(PeerId peer, TimePoint now) {
  if (Members().contains(peer) || (IsNewcomer(peer) && RINGWAY_MUTANT(kAbortForNewcomer))) {
    RINGWAY_REACHED_IF(expelled_.contains(peer), kExpelledGoes);
    RINGWAY_REACHED_IF(replaced_.contains(peer), kReplacedGoes);
    if (!collection_) Collect(now);
  } else {
    const bool is_recorded = IsNewcomer(peer);
    if (is_recorded) RevokeViewsOf(peer);
    Drop({peer}, now);
    if (is_recorded) host_.Changed(*this);
  }
  Advance(now);
}

void Group::SetContact(PeerId peer, Contact contact, TimePoint now) {
  const auto found = peers_.find(peer);
  if (found == peers_.end()) return;
  PeerState& state = found->second;
  const bool returns = contact == Contact::kOnline && !state.online();
  if (returns && collection_ && accusations_.contains(peer) && collection_->returned.insert(peer).second) {
    RINGWAY_REACHED(kAccusedReturns);
    collection_->weighed_since = now;  // wait for its report
  }
  if (contact != state.contact) state.since = now;
  state.contact = contact;
  if (collection_) NoteHearing(now);
  Advance(now);
}

void Group::NoteHearing(TimePoint now) {
  const std::set<PeerId> all = InAnyView();
  const bool hears = std::any_of(all.begin(), all.end(), [&](PeerId id) { return peers_.at(id).online(); });
  if (!hears) {
    collection_->hears_since.reset();
  } else if (!collection_->hears_since) {
    collection_->hears_since = now;
  }
}

void Group::OnCounters(const control::PeerCounters& counters) {
  const auto found = peers_.find(PeerId(counters.peer()));
  if (found != peers_.end()) found->second.counters = CheckedCounters(counters);
}

void Group::Tick(TimePoint now) {
  if (collection_) NoteHearing(now);
  if (std::any_of(peers_.begin(), peers_.end(), [](const auto& entry) { return !entry.second.online(); })) {
    DropLostPendings(now);
    ForgetIfUnheard(now);
  }
  Progress(now);
}

// A peer outside the current view has no state to lose: its trainer waits, and joins as new when its daemon reconnects.
// A newcomer whose prepared view may have been adopted is dropped only after the members have said that it was not.
void Group::DropLostPendings(TimePoint now) {
  const std::set<PeerId> members = Members();
  std::set<PeerId> gone;
  for (const auto& [id, peer] : peers_) {
    if (peer.online() || now - peer.since < options_.detect) continue;
    if (members.contains(id)) {
      if (RINGWAY_MUTANT(kSilenceIsDeath) && !collection_) Collect(now);
    } else if (IsNewcomer(id)) {
      if (RINGWAY_MUTANT(kAbortForNewcomer) && !collection_) Collect(now);
      if (!collection_) RevokeViewsOf(id);
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
  if (current_.epoch() == 0 || !std::all_of(all.begin(), all.end(), is_unheard)) return;
  RINGWAY_REACHED(kForgetGroup);
  EndViews();
  host_.Changed(*this);
  Drop(all, now);
}

void Group::EndViews() {
  collection_.reset();
  revoking_.reset();
  prepared_.clear();
  current_.Clear();
  current_was_prepared_ = false;
  stirred_ = true;
}

void Group::Advance(TimePoint now) {
  stirred_ = true;
  unexplained_ = true;
  Progress(now);
}

void Group::Progress(TimePoint now) {
  if (host_.MayChange(*this)) {
    if (collection_) TryDecide(now);
    if (!collection_ && std::exchange(stirred_, false)) {
      unexplained_ = true;
      TryForm();
      TryPrepare();
    }
    if (!collection_) TryReplan(now);
  }
  if (std::exchange(unexplained_, false)) ExplainPendings();
}

std::set<PeerId> Group::Together(const std::vector<PeerId>& ids, bool as_wanted) const {
  CliqueProblem problem;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    problem.neighbours.push_back(0);
    problem.wanted.push_back(as_wanted ? peers_.at(ids[i]).wait_world : 1);
    for (std::size_t j = 0; j < i; ++j) {
      if (!Stand(ids[i], ids[j])) continue;
      problem.neighbours[i] |= std::uint64_t{1} << j;
      problem.neighbours[j] |= std::uint64_t{1} << i;
    }
  }
  const std::uint64_t chosen = LargestSatisfiedClique(problem).members;
  std::set<PeerId> members;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if ((chosen >> i & 1) != 0) members.insert(ids[i]);
  }
  return members;
}

// An unreachable peer delays only peers that wait for as many.
void Group::TryForm() {
  if (current_.epoch() != 0) return;
  std::vector<PeerId> online;
  for (const auto& [id, peer] : peers_) {
    if (peer.online()) online.push_back(id);
  }
  const std::set<PeerId> members = Together(online, true);
  if (members.empty()) return;
  current_ = MakeView(members, {});
  current_was_prepared_ = false;
  host_.Changed(*this);
  SendViewToMembers(current_, false);
  for (const auto& [id, peer] : peers_) {
    if (!members.contains(id)) SendCandidates(id);  // the group has a view now
  }
}

// Admits as many as possible of the pendings that are connected to all members and newcomers.
void Group::TryPrepare() {
  if (current_.epoch() == 0 || revoking_) return;
  std::set<PeerId> next = MembersOf(Newest());
  std::vector<PeerId> reachable;
  for (const PeerId id : Pendings()) {
    if (next.contains(id) || !peers_.at(id).online()) continue;
    if (std::all_of(next.begin(), next.end(), [&](PeerId other) { return Stand(id, other); })) reachable.push_back(id);
  }
  if (reachable.empty()) return;
  next.merge(Together(reachable, false));
  const control::View view = MakeView(next, Newest());
  prepared_[Epoch(view.epoch())] = view;
  host_.Changed(*this);
  SendViewToMembers(view, true);
}

void Group::OnInstalled(PeerId peer, Epoch epoch, TimePoint now) {
  const auto found = prepared_.find(epoch);
  if (found == prepared_.end() || !MembersOf(found->second).contains(peer)) return;
  const std::set<PeerId> before = Members();
  current_ = found->second;
  current_was_prepared_ = true;
  prepared_.erase(prepared_.begin(), std::next(found));
  host_.Changed(*this);
  RINGWAY_REACHED(kAdoptPrepared);
  RINGWAY_REACHED_IF(revoking_.has_value(), kTakeBackLate);
  if (revoking_) {  // too late: it was agreed on before. Remaining newcomers may have dropped it.
    revoking_.reset();
    for (const PeerId id : MembersOf(current_)) {
      if (!before.contains(id) && peers_.contains(id)) SendView(current_, true, id);
    }
    if (!prepared_.empty()) RevokePrepared(prepared_.begin()->first);
  }
  const std::set<PeerId> members = Members();
  const bool lacks_one = std::any_of(members.begin(), members.end(), [&](PeerId id) { return !peers_.contains(id); });
  if (lacks_one && !collection_) Collect(now);
  Advance(now);
}

// ---------------------------------------------------------------------------------------------- taking back

bool Group::IsNewcomer(PeerId peer) const { return InAnyView().contains(peer) && !Members().contains(peer); }

// Later views contain the newcomers of earlier ones, so they become void, too.
void Group::RevokeViewsOf(PeerId newcomer) {
  for (const auto& [epoch, view] : prepared_) {
    if (MembersOf(view).contains(newcomer)) return RevokePrepared(epoch);
  }
}

// Members may just have agreed on one of them, and will switch to it in any case. Each replies when it no longer can:
// from then on it does not stamp these views, so the minimum over all members cannot be one of them. Until all have
// replied, the views are kept and no others are prepared.
void Group::RevokePrepared(Epoch first) {
  if (collection_ || (revoking_ && revoking_->first <= first)) return;
  revoking_ = Revocation{.first = first, .awaited = Members()};
  std::erase_if(revoking_->awaited, [&](PeerId id) { return !peers_.contains(id); });
  if (RINGWAY_MUTANT(kRevokeUnasked)) revoking_->awaited = {*Members().begin()};
  RINGWAY_REACHED(kRevokePrepared);
  for (const PeerId id : InAnyView()) SendRevokePrepared(id);
}

void Group::SendRevokePrepared(PeerId id) {
  control::FromMaster message;
  message.mutable_revoke_prepared()->set_peer(id.value);
  message.mutable_revoke_prepared()->set_epoch(revoking_->first.value);
  SendTo(id, std::move(message));
}

void Group::OnPreparedRevoked(PeerId peer, Epoch epoch, TimePoint now) {
  if (!revoking_ || epoch != revoking_->first) return;
  revoking_->awaited.erase(peer);
  if (!revoking_->awaited.empty()) return;
  prepared_.erase(prepared_.lower_bound(epoch), prepared_.end());
  revoking_.reset();
  host_.Changed(*this);
  Advance(now);
}

// ---------------------------------------------------------------------------------------------- views and drops

void Group::SendView(const control::View& view, bool prepared, PeerId to) {
  control::FromMaster message;
  message.mutable_view()->set_peer(to.value);
  message.mutable_view()->set_prepared(prepared);
  *message.mutable_view()->mutable_view() = view;
  SendTo(to, std::move(message));
}

void Group::SendViewToMembers(const control::View& view, bool prepared) {
  for (const PeerId peer : MembersOf(view)) SendView(view, prepared, peer);
}

void Group::Drop(const std::set<PeerId>& gone, TimePoint now, bool may_return) {
  std::vector<FormerPeer> formers;  // each names others
  for (const PeerId peer : gone) {
    FormerPeer& former = formers.emplace_back(Former(peer, now));
    const bool goes_on = peers_.size() > gone.size();
    former.told = former.code == Code::kLeft ? "left the group"
                  : goes_on ? former.why + ", and group " + name_ + " went on: rejoin and take its state"
                            : former.why + ", and group " + name_ + " has no peers left: rejoin";
    control::FromMaster message;
    message.mutable_evicted()->set_peer(peer.value);
    message.mutable_evicted()->set_code(static_cast<std::uint32_t>(former.code));
    message.mutable_evicted()->set_text(former.told);
    message.mutable_evicted()->set_unknown(may_return && former.code != Code::kLeft);
    SendTo(peer, std::move(message));
  }
  for (FormerPeer& former : formers) Erase(std::move(former));
  if (gone.empty()) return;
  stirred_ = unexplained_ = true;
  for (const auto& [id, peer] : peers_) SendForget(id, gone);
}

void Group::SendForget(PeerId to, const std::set<PeerId>& gone) {
  control::FromMaster message;
  message.mutable_forget()->set_peer(to.value);
  for (const PeerId other : gone) message.mutable_forget()->add_others(other.value);
  SendTo(to, std::move(message));
}

void Group::Erase(FormerPeer former) {
  const PeerId peer = former.peer;
  peers_.erase(peer);
  leaving_.erase(peer);
  replaced_.erase(peer);
  expelled_.erase(peer);
  accusations_.erase(peer);
  for (auto& [accused, accusers] : accusations_) accusers.erase(peer);
  std::erase_if(accusations_, [](const auto& entry) { return entry.second.empty(); });
  paths_.Forget(peer);
  for (auto& [id, state] : peers_) {
    state.standing.erase(peer);
    state.dial_errors.erase(peer);
  }
  host_.Retire(std::move(former));
}

// ---------------------------------------------------------------------------------------------- sets of peers

std::set<PeerId> Group::MembersOf(const control::View& view) {
  std::set<PeerId> members;
  for (const control::PeerInfo& info : view.members()) members.emplace(info.peer_id());
  return members;
}

std::set<PeerId> Group::InAnyView() const {
  std::set<PeerId> all = Members();
  for (const auto& [epoch, view] : prepared_) all.merge(MembersOf(view));
  std::erase_if(all, [&](PeerId peer) { return !peers_.contains(peer); });
  return all;
}

const control::View& Group::Newest() const { return prepared_.empty() ? current_ : prepared_.rbegin()->second; }

std::set<PeerId> Group::Pendings() const {
  const std::set<PeerId> members = Members();
  std::set<PeerId> out;
  for (const auto& [id, peer] : peers_) {
    if (!members.contains(id)) out.insert(id);
  }
  return out;
}

std::string Group::Label(PeerId peer) const {
  const control::PeerInfo& info = peers_.at(peer).info;
  return (info.name().empty() ? "peer " + ToString(peer) : info.name()) + " (" +
         (info.address().empty() ? "no address" : info.address()) + ")";
}

}  // namespace ringway
