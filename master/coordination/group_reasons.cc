// Texts: why a peer is pending, and why a member was dropped.
#include "master/coordination/group.h"

namespace ringway {
void Group::ExplainPendings() {
  for (const PeerId id : Pendings()) {
    Reason why = WhyPending(id);
    PeerState& peer = peers_.at(id);
    if (why.text == peer.told) continue;
    peer.told = why.text;
    control::FromMaster message;
    message.mutable_pending()->set_peer(id.value);
    message.mutable_pending()->set_code(static_cast<std::uint32_t>(why.code));
    message.mutable_pending()->set_text(std::move(why.text));
    SendTo(id, std::move(message));
  }
}

// Before the first view all peers count, afterwards only those that a pending peer has to be connected to.
Group::Reason Group::WhyPending(PeerId id) const {
  const bool formed = current_.epoch() != 0;
  const std::set<PeerId> newest = MembersOf(Newest());
  const PeerState& self = peers_.at(id);
  if (!host_.MayChange(*this) && host_.FailsToRecord()) {
    return {Code::kMasterUnreachable,
            "the master cannot write its journal and changes no group until it can: see its log or status"};
  }
  const auto unreachable = [&](PeerId from, PeerId to, const std::string& error) {
    return Reason{
        Code::kPeerUnreachable,
        Label(from) + " cannot reach " + Label(to) + ": " + error +
            (formed ? "; group " + name_ + " goes on without " + Label(id) + " until they reach each other" : "")};
  };
  for (const auto& [other, peer] : peers_) {
    if (formed && !newest.contains(other)) continue;
    const bool apart = other != id && peer.info.daemon() != self.info.daemon();
    if (apart && peer.info.address().empty() && self.info.address().empty() && !Stand(id, other)) {
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

FormerPeer Group::Former(PeerId id, TimePoint now) const {
  const control::PeerInfo& info = peers_.at(id).info;
  return {.peer = id,
          .group = name_,
          .name = info.name(),
          .address = info.address(),
          .code = leaving_.contains(id) ? Code::kLeft : Code::kEvicted,
          .why = WhyGone(id, now)};
}

std::string Group::WhyGone(PeerId id, TimePoint now) const {
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

// The labels of a few accusers, and the number of the others; "" if there are none.
std::string Group::Accusers(PeerId id) const {
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
