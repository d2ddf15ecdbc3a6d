#include "master/coordination/membership.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include "master/coordination/clique.h"
#include "proto/mutation.h"
#include "proto/rules.h"

namespace ringway {
namespace {

// What members say about each other, among those that remain.
struct Discord {
  std::set<PeerId> accusers;
  std::set<PeerId> accused;
  std::set<PeerId> doubters;  // accuse or suspect it
  std::set<PeerId> at_odds;   // with it: doubters, and those that it doubts
};
using Discords = std::map<PeerId, Discord>;

Discords DiscordAmong(const std::set<PeerId>& remaining, const Dispute& dispute) {
  Discords out;
  const auto each = [&](const Accusations& words, auto&& add) {
    for (const auto& [about, by] : words) {
      if (!remaining.contains(about)) continue;
      for (const PeerId one : by) {
        if (one == about || !remaining.contains(one)) continue;
        add(about, one);
        out[about].doubters.insert(one);
        out[about].at_odds.insert(one);
        out[one].at_odds.insert(about);
      }
    }
  };
  each(dispute.accusations, [&](PeerId accused, PeerId accuser) {
    out[accused].accusers.insert(accuser);
    out[accuser].accused.insert(accused);
  });
  if (!RINGWAY_MUTANT(kIgnoreSuspicions)) each(dispute.suspicions, [](PeerId, PeerId) {});
  return out;
}

std::set<PeerId> Remaining(const Dispute& dispute) {
  std::set<PeerId> remaining = dispute.members;
  for (const PeerId peer : dispute.certain) remaining.erase(peer);
  return remaining;
}

void DropSilentAccused(const Dispute& dispute, std::set<PeerId>* remaining) {
  for (;;) {
    std::pair<std::size_t, PeerId> worst;
    for (const auto& [peer, discord] : DiscordAmong(*remaining, dispute)) {
      if (!dispute.spoken.contains(peer)) worst = std::max(worst, {discord.accusers.size(), peer});
    }
    if (worst.first == 0) return;
    RINGWAY_REACHED(kSilentAccusedGoes);
    remaining->erase(worst.second);
  }
}

[[maybe_unused]] bool AreAllIn(const std::set<PeerId>& some, const std::set<PeerId>& all) {
  return std::includes(all.begin(), all.end(), some.begin(), some.end());
}

struct Peace {
  std::set<PeerId> members;
  bool exact = true;  // false: the search was stopped, a larger set may exist
};

// Returns the largest subset of `peers` without an accusation.
Peace LargestInPeace(const std::vector<PeerId>& peers, const Discords& discords, std::uint64_t& steps_left) {
  CliqueProblem problem{.neighbours = std::vector<std::uint64_t>(peers.size()),
                        .wanted = std::vector<std::uint32_t>(peers.size(), 1)};
  for (std::size_t i = 0; i < peers.size(); ++i) {
    const Discord& discord = discords.at(peers[i]);
    for (std::size_t j = 0; j < peers.size(); ++j) {
      if (discord.accusers.contains(peers[j]) || discord.accused.contains(peers[j])) continue;
      problem.neighbours[i] |= std::uint64_t{1} << j;
    }
  }
  const CliqueAnswer answer = LargestSatisfiedClique(problem, steps_left);
  Peace out{.members = {}, .exact = answer.exact};
  for (std::size_t i = 0; i < peers.size(); ++i) {
    if ((answer.members >> i & 1) != 0) out.members.insert(peers[i]);
  }
  return out;
}

// Members in an accusation, the least trusted one first.
std::vector<PeerId> Disputants(const Discords& discords) {
  using Distrust = std::tuple<std::size_t, std::size_t, PeerId>;
  std::vector<Distrust> order;
  for (const auto& [peer, discord] : discords) {
    if (discord.accusers.empty() && discord.accused.empty()) continue;
    order.emplace_back(discord.at_odds.size(), discord.doubters.size(), peer);
  }
  std::sort(order.rbegin(), order.rend());
  std::vector<PeerId> peers;
  for (const Distrust& one : order) peers.push_back(std::get<PeerId>(one));
  return peers;
}

// Leaves out one disputant after the other, beginning with the least trusted, as long as a set of the same size is left
// among the others.
void DropDisputants(const Dispute& dispute, std::uint64_t& steps_left, std::set<PeerId>* remaining) {
  const Discords discords = DiscordAmong(*remaining, dispute);
  const std::vector<PeerId> disputants = Disputants(discords);
  std::vector<PeerId> left = disputants;
  Peace stay = LargestInPeace(left, discords, steps_left);
  for (const PeerId peer : disputants) {
    if (left.size() == stay.members.size() || !stay.exact) break;
    std::vector<PeerId> others = left;
    std::erase(others, peer);
    Peace without = LargestInPeace(others, discords, steps_left);
    if (without.members.size() < stay.members.size()) continue;
    RINGWAY_REACHED_IF(stay.members.contains(peer), kLeastTrustedGoes);
    left = std::move(others);
    stay = std::move(without);
  }
  std::set<PeerId> staying = *remaining;
  for (const PeerId peer : disputants) {
    if (stay.members.contains(peer)) continue;
    const std::set<PeerId>& against = discords.at(peer).at_odds;
    RINGWAY_REACHED_IF(against.size() + 1 == remaining->size(), kLonelyGoes);
    RINGWAY_REACHED_IF(against.size() + 1 < remaining->size() && AreAllIn(stay.members, against), kLargerSideStays);
    RINGWAY_REACHED_IF(!AreAllIn(stay.members, against), kLargestSetStays);
    staying.erase(peer);
  }
  *remaining = std::move(staying);
}

}  // namespace

std::set<PeerId> WhoGoes(const Dispute& dispute, std::uint64_t& steps_left) {
  std::set<PeerId> remaining = Remaining(dispute);
  DropSilentAccused(dispute, &remaining);
  DropDisputants(dispute, steps_left, &remaining);
  std::set<PeerId> gone = dispute.members;
  for (const PeerId peer : remaining) gone.erase(peer);
  return gone;
}

std::set<PeerId> WhoGoes(const Dispute& dispute) {
  std::uint64_t steps_left = kCliqueStepsMax;
  return WhoGoes(dispute, steps_left);
}

bool IsSettled(const Dispute& dispute) {
  const std::set<PeerId> remaining = Remaining(dispute);
  const Discords discords = DiscordAmong(remaining, dispute);
  const auto is_all_others = [&](const std::set<PeerId>& some) { return some.size() + 1 == remaining.size(); };
  std::size_t alone = 0;   // at odds with all others
  std::size_t spoken = 0;  // accuse all others
  for (const auto& [peer, discord] : discords) {
    alone += is_all_others(discord.at_odds) ? 1 : 0;
    spoken += is_all_others(discord.accused) ? 1 : 0;
  }
  if (spoken == remaining.size()) return true;
  return std::all_of(discords.begin(), discords.end(), [&](const auto& entry) {
    const Discord& discord = entry.second;
    if (discord.accusers.empty()) return true;
    if (alone + 2 > remaining.size()) return false;
    return is_all_others(discord.at_odds) ||
           std::all_of(discord.accusers.begin(), discord.accusers.end(),
                       [&](PeerId accuser) { return is_all_others(discords.at(accuser).at_odds); });
  });
}

}  // namespace ringway
