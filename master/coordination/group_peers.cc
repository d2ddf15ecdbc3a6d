#include "master/coordination/group_peers.h"

#include <algorithm>
#include <utility>

#include "master/coordination/clique.h"
#include "proto/mutation.h"
#include "proto/rules.h"

namespace ringway {

GroupPeers::GroupPeers(const record::Group& record, TimePoint missed) : group_(record.name()) {
  for (const record::Member& member : record.members()) {
    PeerState& peer = peers_[PeerId(member.info().peer_id())];
    peer.info = member.info();
    peer.wait_world = member.wait_world();
    peer.min_world = member.min_world();
    peer.hung_ms = member.hung_ms();
    peer.contact = Contact::kSilent;
    peer.since = missed;
    peer.is_restored = true;
  }
}

void GroupPeers::SaveTo(record::Group* record, const std::set<PeerId>& ids) const {
  for (const PeerId id : ids) {
    const PeerState& peer = peers_.at(id);
    record::Member& member = *record->add_members();
    *member.mutable_info() = peer.info;
    member.set_wait_world(peer.wait_world);
    member.set_min_world(peer.min_world);
    member.set_hung_ms(peer.hung_ms);
  }
}

void GroupPeers::Add(const control::PeerInfo& info, const control::JoinRequest& request, TimePoint now) {
  PeerState& state = peers_[PeerId(info.peer_id())];
  state.info = info;
  state.wait_world = std::max(1u, request.wait_world());
  state.min_world = std::max(1u, request.min_world());
  state.hung_ms = request.hung_ms();
  state.since = now;
}

void GroupPeers::Erase(PeerId id) {
  peers_.erase(id);
  leaving_.erase(id);
  replaced_.erase(id);
  expelled_.erase(id);
  accusations_.erase(id);
  for (auto& [accused, accusers] : accusations_) accusers.erase(id);
  std::erase_if(accusations_, [](const auto& entry) { return entry.second.empty(); });
  for (auto& [other, state] : peers_) {
    state.standing.erase(id);
    state.dial_errors.erase(id);
    state.sent.erase(id);
  }
}

std::set<PeerId> GroupPeers::Known(std::set<PeerId> ids) const {
  std::erase_if(ids, [&](PeerId id) { return !peers_.contains(id); });
  return ids;
}

bool GroupPeers::IsOnline(PeerId id) const {
  const auto found = peers_.find(id);
  return found != peers_.end() && found->second.online();
}

bool GroupPeers::AreConnected(PeerId a, PeerId b) const {
  return peers_.at(a).standing.contains(b) && peers_.at(b).standing.contains(a);
}

std::set<PeerId> GroupPeers::LargestConnected(const std::vector<PeerId>& ids, bool as_wanted) const {
  CliqueProblem problem;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    problem.neighbours.push_back(0);
    problem.wanted.push_back(as_wanted ? peers_.at(ids[i]).wait_world : 1);
    for (std::size_t j = 0; j < i; ++j) {
      if (!AreConnected(ids[i], ids[j])) continue;
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

bool GroupPeers::AddAccusations(const control::Report& report, const std::set<PeerId>& in_view, Epoch current) {
  const PeerId peer(report.peer());
  bool is_new = false;
  for (const std::uint64_t lost : report.lost()) {
    const PeerId accused(lost);
    if (accused == peer || !in_view.contains(accused)) continue;
    if (RINGWAY_MUTANT(kForgetOldLosses) && Epoch(report.epoch()) != current) continue;
    RINGWAY_REACHED_IF(IsAccused(peer), kAccusedAccuses);
    is_new = accusations_[accused].insert(peer).second || is_new;
  }
  return is_new;
}

std::set<PeerId> GroupPeers::Going() const {
  std::set<PeerId> going = leaving_;
  going.insert(replaced_.begin(), replaced_.end());
  for (const auto& [id, why] : expelled_) going.insert(id);
  return going;
}

void GroupPeers::TakeCounters(control::PeerCounters counters, const Billing& billing, TimePoint now) {
  constexpr std::uint64_t kReportBytesMax = std::uint64_t{1} << 46;  // more is no count
  constexpr std::uint64_t kOperationsMax = 1'000'000;                // likewise
  PeerState& peer = peers_.at(PeerId(counters.peer()));
  const auto done_of = [](const control::PeerCounters& of) { return of.counts_size() > 0 ? of.counts(0) : 0; };
  const bool is_baseline = peer.is_restored && peer.counters.counts_size() == 0;
  const std::uint64_t done_before = is_baseline ? done_of(counters) : done_of(peer.counters);
  const std::uint64_t reported = done_of(counters) - std::min(done_before, done_of(counters));
  const std::uint64_t done = reported > kOperationsMax ? 0 : reported;
  for (const control::PathTraffic& path : counters.live().paths()) {
    const auto other = peers_.find(PeerId(path.other()));
    if (other == peers_.end()) continue;
    const bool was_billed = peer.is_restored && other->second.is_restored;  // by the master before
    const auto [known, is_new] = peer.sent.try_emplace(other->first, was_billed ? path.bytes() : 0);
    const std::uint64_t before = std::exchange(known->second, path.bytes());
    const std::uint64_t bytes = path.bytes() >= before ? path.bytes() - before : path.bytes();
    const control::PeerInfo& to = other->second.info;
    const bool is_same_host = to.daemon() == peer.info.daemon() && to.address() == peer.info.address();
    if (bytes == 0 || bytes > kReportBytesMax || is_same_host) continue;
    const double price = billing.prices == nullptr ? 0 : billing.prices->PerByte(peer.info.site(), to.site());
    const Traffic traffic{.bytes = bytes, .cost = static_cast<double>(bytes) * price};
    for (TrafficBill* const bill : billing.bills)
      bill->AddBytes({.from = peer.info.site(), .to = to.site()}, traffic, now);
  }
  const double share = static_cast<double>(done) / static_cast<double>(std::max<std::size_t>(billing.world, 1));
  for (TrafficBill* const bill : billing.bills) bill->AddOperations(share, now);
  peer.counters = std::move(counters);
}

OpHistory::Sample GroupPeers::SampleOf(const std::set<PeerId>& members, TimePoint now) const {
  OpHistory::Sample sample{.at = now, .world = static_cast<std::uint32_t>(members.size())};
  bool is_first = true;
  for (const PeerId id : Known(members)) {
    const control::PeerCounters& counters = peers_.at(id).counters;
    if (!counters.has_live()) continue;
    const float rate = static_cast<float>(counters.live().operations_milli()) / 1e3F;
    const float time = static_cast<float>(counters.live().operation_us()) / 1e3F;
    sample.operations_per_second = is_first ? rate : std::min(sample.operations_per_second, rate);
    sample.operation_ms = std::max(sample.operation_ms, time);
    is_first = false;
  }
  return sample;
}

// ---------------------------------------------------------------------------------------------- texts

std::string GroupPeers::Label(PeerId id) const {
  const control::PeerInfo& info = peers_.at(id).info;
  return (info.name().empty() ? "peer " + ToString(id) : info.name()) + " (" +
         (info.address().empty() ? "no address" : info.address()) + ")";
}

PendingReason GroupPeers::WhyPending(PeerId id, const ViewChain& views) const {
  const bool formed = views.formed();
  const std::set<PeerId> newest = MembersOf(views.Newest());
  const PeerState& self = peers_.at(id);
  const auto unreachable = [&](PeerId from, PeerId to, const std::string& error) {
    return PendingReason{
        Code::kPeerUnreachable,
        Label(from) + " cannot reach " + Label(to) + ": " + error +
            (formed ? "; group " + group_ + " goes on without " + Label(id) + " until they reach each other" : "")};
  };
  for (const auto& [other, peer] : peers_) {
    if (formed && !newest.contains(other)) continue;
    const bool apart = other != id && peer.info.daemon() != self.info.daemon();
    if (apart && peer.info.address().empty() && self.info.address().empty() && !AreConnected(id, other)) {
      return unreachable(id, other, "neither can be dialled: give one of them an address, with --advertise");
    }
    if (const auto error = peer.dial_errors.find(id); error != peer.dial_errors.end()) {
      return unreachable(other, id, error->second);
    }
    if (const auto error = self.dial_errors.find(other); error != self.dial_errors.end()) {
      return unreachable(id, other, error->second);
    }
  }
  if (!formed) {
    std::uint32_t wanted = 1;
    for (const auto& [other, peer] : peers_) wanted = std::max(wanted, peer.wait_world);
    return {Code::kOk, std::to_string(peers_.size()) + " of " + std::to_string(wanted) + " peers are here"};
  }
  if (newest.contains(id)) return {Code::kOk, "links stand; waiting for the members to call UpdateView"};
  return {Code::kOk, "opening links to the members"};
}

FormerPeer GroupPeers::Former(PeerId id, TimePoint now) const {
  const control::PeerInfo& info = peers_.at(id).info;
  return {.peer = id,
          .group = group_,
          .name = info.name(),
          .address = info.address(),
          .code = leaving_.contains(id) ? Code::kLeft : Code::kEvicted,
          .why = WhyGone(id, now)};
}

std::string GroupPeers::WhyGone(PeerId id, TimePoint now) const {
  if (leaving_.contains(id)) return "it left";
  if (const auto expelled = expelled_.find(id); expelled != expelled_.end()) return expelled->second;
  if (replaced_.contains(id)) return "its daemon was replaced by another process";
  const PeerState& peer = peers_.at(id);
  std::string silence;
  if (!peer.online() && now < peer.since) {
    silence = "its daemon has not come back since the master started";
  } else if (peer.contact == Contact::kClosed) {
    silence = "its daemon closed its connection to the master " + SecondsText(now - peer.since) + " ago";
  } else if (peer.contact == Contact::kSilent) {
    silence = "the master has not heard its daemon for " + SecondsText(now - peer.since);
  }
  const std::string accusers = Accusers(id);
  if (!accusers.empty()) return accusers + " lost contact with it" + (silence.empty() ? "" : "; ") + silence;
  if (!silence.empty()) return silence;
  for (const auto& [other, others] : accusations_) {
    if (others.contains(id) && peers_.contains(other)) return "it lost contact with " + Label(other);
  }
  return "it did not answer during a recovery";
}

// Returns the labels of a few accusers, and the number of the others; "" if there are none.
std::string GroupPeers::Accusers(PeerId id) const {
  constexpr std::size_t kNamed = 2;  // texts for trainers are short
  const auto found = accusations_.find(id);
  if (found == accusations_.end()) return {};
  std::string text;
  std::size_t count = 0;
  for (const PeerId accuser : found->second) {
    if (!peers_.contains(accuser) || ++count > kNamed) continue;
    text += (text.empty() ? "" : ", ") + Label(accuser);
  }
  return count > kNamed ? text + " and " + std::to_string(count - kNamed) + " more" : text;
}

}  // namespace ringway
