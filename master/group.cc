#include "master/group.h"

#include <algorithm>

#include "master/plan_times.h"
#include "master/verdicts.h"
#include "proto/local_abi.h"

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
      current_was_prepared_(record.current_was_prepared()),
      min_world_(record.min_world()) {
  for (const control::View& view : record.prepared()) prepared_[Epoch(view.epoch())] = view;
  for (const record::Member& member : record.members()) {
    PeerState& peer = peers_[PeerId(member.info().peer_id())];
    peer.info = member.info();
    peer.wait_world = member.wait_world();
    peer.min_world = member.min_world();
    peer.online = false;
    peer.since = missed;
  }
}

record::Group Group::Record() const {
  record::Group record;
  record.set_name(name_);
  record.set_fail_on_peer_loss(fail_on_peer_loss_);
  record.set_min_world(min_world_);
  *record.mutable_current() = current_;
  record.set_current_was_prepared(current_was_prepared_);
  for (const auto& [epoch, view] : prepared_) *record.add_prepared() = view;
  for (const PeerId id : InAnyView()) {
    const PeerState& peer = peers_.at(id);
    record::Member& member = *record.add_members();
    *member.mutable_info() = peer.info;
    member.set_wait_world(peer.wait_world);
    member.set_min_world(peer.min_world);
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
      return {Code::kJoinRefused, "group " + name_ + " has a peer named " + request.name() + ": choose another name"};
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

// All of it may be known there already: whoever receives it ignores what is not news.
void Group::Resync(PeerId id) {
  const auto found = peers_.find(id);
  if (found == peers_.end()) return;
  SendCandidates(id);
  if (Members().contains(id)) SendView(current_, current_was_prepared_, id);
  for (const auto& [epoch, view] : prepared_) {
    if (MembersOf(view).contains(id)) SendView(view, true, id);
  }
  if (collection_ && collection_->told.contains(id)) SendAbort(id);
  found->second.told.clear();
  ExplainPendings();
}

void Group::OnConnected(PeerId peer, PeerId other, Duration round_trip, TimePoint now) {
  if (!peers_.contains(peer) || !peers_.contains(other) || peer == other) return;
  (void)paths_.SetRoundTrip(peer, other, round_trip);
  peers_[peer].standing.insert(other);
  peers_[peer].dial_errors.erase(other);
  Advance(now);
}

void Group::OnDialFailed(PeerId peer, PeerId other, const std::string& text) {
  if (!peers_.contains(peer) || !peers_.contains(other)) return;
  peers_[peer].dial_errors[other] = ClipText(text);
  peers_[peer].standing.erase(other);
  ExplainPendings();
}

bool Group::Stand(PeerId a, PeerId b) const {
  return peers_.at(a).standing.contains(b) && peers_.at(b).standing.contains(a);
}

void Group::OnWithdraw(PeerId peer, TimePoint now) {
  if (!peers_.contains(peer)) return;
  leaving_.insert(peer);
  if (!InAnyView().contains(peer)) {
    Drop({peer});
  } else if (!collection_) {
    Collect(now);
  }
  Advance(now);
}

void Group::SetOnline(PeerId peer, bool online, TimePoint now) {
  const auto found = peers_.find(peer);
  if (found == peers_.end()) return;
  if (online != found->second.online) found->second.since = now;
  const bool accused = accusations_.contains(peer);
  if (online && !found->second.online && collection_ && accused) collection_->weighed_since = now;  // yet to answer
  found->second.online = online;
  Advance(now);
}

void Group::OnCounters(const control::PeerCounters& counters) {
  const auto found = peers_.find(PeerId(counters.peer()));
  if (found != peers_.end()) found->second.counters = CheckedCounters(counters);
}

void Group::Tick(TimePoint now) {
  const std::set<PeerId> in_view = InAnyView();
  std::set<PeerId> pending_gone;
  bool member_gone = false;
  for (const auto& [id, peer] : peers_) {
    if (peer.online || now - peer.since < options_.detect) continue;
    if (in_view.contains(id)) {
      member_gone = true;
    } else {
      pending_gone.insert(id);
    }
  }
  if (!pending_gone.empty()) Drop(pending_gone);
  if (member_gone && !collection_) Collect(now);
  Advance(now);
}

void Group::Advance(TimePoint now) {
  if (host_.MayChange(*this)) {
    if (collection_) TryDecide(now);
    if (!collection_) {
      TryForm();
      TryPrepare();
      TryReplan(now);
    }
  }
  ExplainPendings();
}

// The first view: pendings that all reach each other, taken in peer id order, as many as any of them waits for.
void Group::TryForm() {
  if (current_.epoch() != 0) return;
  std::set<PeerId> clique;
  std::uint32_t wanted = 1;
  for (const auto& [id, peer] : peers_) {
    if (!peer.online) continue;
    const PeerId candidate = id;
    if (!std::all_of(clique.begin(), clique.end(), [&](PeerId other) { return Stand(candidate, other); })) continue;
    clique.insert(id);
    wanted = std::max(wanted, peer.wait_world);
  }
  if (clique.empty() || clique.size() < wanted) return;
  current_ = MakeView(clique, {});
  current_was_prepared_ = false;
  host_.Changed(*this);
  SendViewToMembers(current_, false);
  for (const auto& [id, peer] : peers_) {
    if (!clique.contains(id)) SendCandidates(id);  // the group has a view now
  }
}

void Group::TryPrepare() {
  if (current_.epoch() == 0) return;
  std::set<PeerId> next = MembersOf(Newest());
  const std::size_t before = next.size();
  for (const PeerId id : Pendings()) {
    if (next.contains(id) || !peers_.at(id).online) continue;
    if (std::all_of(next.begin(), next.end(), [&](PeerId other) { return Stand(id, other); })) next.insert(id);
  }
  if (next.size() == before) return;
  const control::View view = MakeView(next, Newest());
  prepared_[Epoch(view.epoch())] = view;
  host_.Changed(*this);
  SendViewToMembers(view, true);
}

void Group::OnInstalled(PeerId peer, Epoch epoch, TimePoint now) {
  const auto found = prepared_.find(epoch);
  if (found == prepared_.end() || !MembersOf(found->second).contains(peer)) return;
  current_ = found->second;
  current_was_prepared_ = true;
  prepared_.erase(prepared_.begin(), std::next(found));
  host_.Changed(*this);
  Advance(now);
}

// ---------------------------------------------------------------------------------------------- views and farewells

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

void Group::Drop(const std::set<PeerId>& gone) {
  for (const PeerId peer : gone) {
    control::FromMaster message;
    const bool left = leaving_.contains(peer);
    message.mutable_evicted()->set_peer(peer.value);
    message.mutable_evicted()->set_code(static_cast<std::uint32_t>(left ? Code::kLeft : Code::kEvicted));
    message.mutable_evicted()->set_text(left ? "left the group"
                                             : "the other peers of group " + name_ +
                                                   " lost contact and went on: rejoin and take their state");
    SendTo(peer, std::move(message));
  }
  for (const PeerId peer : gone) Erase(peer);
  if (gone.empty()) return;
  for (const auto& [id, peer] : peers_) {
    control::FromMaster message;
    message.mutable_forget()->set_peer(id.value);
    for (const PeerId other : gone) message.mutable_forget()->add_others(other.value);
    SendTo(id, std::move(message));
  }
}

void Group::Erase(PeerId peer) {
  peers_.erase(peer);
  leaving_.erase(peer);
  accusations_.erase(peer);
  for (auto& [accused, accusers] : accusations_) accusers.erase(peer);
  paths_.Forget(peer);
  for (auto& [id, state] : peers_) {
    state.standing.erase(peer);
    state.dial_errors.erase(peer);
  }
  host_.Retire(peer);
}

// ---------------------------------------------------------------------------------------------- who is where

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
  return (info.name().empty() ? "peer " + ToString(peer) : info.name()) + " (" + info.address() + ")";
}

void Group::ExplainPendings() {
  for (const PeerId id : Pendings()) {
    std::string why = WhyPending(id);
    PeerState& peer = peers_.at(id);
    if (why == peer.told) continue;
    peer.told = why;
    const bool unreachable = why.find("cannot reach") != std::string::npos;
    control::FromMaster message;
    message.mutable_pending()->set_peer(id.value);
    message.mutable_pending()->set_code(static_cast<std::uint32_t>(unreachable ? Code::kPeerUnreachable : Code::kOk));
    message.mutable_pending()->set_text(std::move(why));
    SendTo(id, std::move(message));
  }
}

std::string Group::WhyPending(PeerId id) const {
  const PeerState& self = peers_.at(id);
  for (const auto& [other, peer] : peers_) {
    if (const auto error = peer.dial_errors.find(id); error != peer.dial_errors.end()) {
      return Label(other) + " cannot reach " + Label(id) + ": " + error->second;
    }
    if (const auto error = self.dial_errors.find(other); error != self.dial_errors.end()) {
      return Label(id) + " cannot reach " + Label(other) + ": " + error->second;
    }
  }
  if (current_.epoch() == 0) {
    std::uint32_t wanted = 1;
    for (const auto& [other, peer] : peers_) wanted = std::max(wanted, peer.wait_world);
    return std::to_string(peers_.size()) + " of " + std::to_string(wanted) + " peers are here";
  }
  if (MembersOf(Newest()).contains(id)) return "links stand; waiting for the members to call UpdateView";
  return "opening links to the members";
}

}  // namespace ringway
