// Why those wait who are not in the group's view, as they are told.
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

// Before the first view everybody counts, afterwards only those whom a pending has to reach to be let in.
Group::Reason Group::WhyPending(PeerId id) const {
  const bool formed = current_.epoch() != 0;
  const std::set<PeerId> newest = MembersOf(Newest());
  const PeerState& self = peers_.at(id);
  const auto unreachable = [&](PeerId from, PeerId to, const std::string& error) {
    return Reason{
        Code::kPeerUnreachable,
        Label(from) + " cannot reach " + Label(to) + ": " + error +
            (formed ? "; group " + name_ + " goes on without " + Label(id) + " until they reach each other" : "")};
  };
  for (const auto& [other, peer] : peers_) {
    if (formed && !newest.contains(other)) continue;
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

}  // namespace ringway
