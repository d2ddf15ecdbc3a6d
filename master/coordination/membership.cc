#include "master/coordination/membership.h"

#include <algorithm>
#include <cstddef>
#include <tuple>

namespace ringway {
namespace {

struct Discord {
  std::set<PeerId> accusers;
  std::set<PeerId> others;  // accusers and accused
};

// Between members that remain.
std::map<PeerId, Discord> DiscordAmong(const std::set<PeerId>& remaining, const Accusations& accusations) {
  std::map<PeerId, Discord> out;
  for (const auto& [accused, accusers] : accusations) {
    if (!remaining.contains(accused)) continue;
    for (const PeerId accuser : accusers) {
      if (!remaining.contains(accuser)) continue;
      out[accused].accusers.insert(accuser);
      out[accused].others.insert(accuser);
      out[accuser].others.insert(accused);
    }
  }
  return out;
}

}  // namespace

std::set<PeerId> WhoGoes(const Dispute& dispute) {
  std::set<PeerId> remaining = dispute.members;
  for (const PeerId peer : dispute.certain) remaining.erase(peer);
  for (;;) {
    using Weight = std::tuple<bool, std::size_t, std::size_t, PeerId>;
    Weight worst{false, 0, 0, PeerId()};
    for (const auto& [peer, discord] : DiscordAmong(remaining, dispute.accusations)) {
      const bool silent = !discord.accusers.empty() && !dispute.spoken.contains(peer);
      const std::size_t accusers = discord.accusers.size();
      worst = std::max(worst, Weight{silent, silent ? accusers : discord.others.size(), accusers, peer});
    }
    if (std::get<PeerId>(worst) == PeerId()) break;
    remaining.erase(std::get<PeerId>(worst));
  }
  std::set<PeerId> gone = dispute.members;
  for (const PeerId peer : remaining) gone.erase(peer);
  return gone;
}

}  // namespace ringway
