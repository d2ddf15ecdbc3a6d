#include "daemon/agreement/input_quorum.h"

#include <algorithm>

#include "proto/mutation.h"
#include "proto/rules.h"

namespace ringway::agreement {

void InputQuorum::OnView() {
  open_.clear();
  missed_.clear();
}

void InputQuorum::Add(PeerId from, const OpName& name, const Offer& offer) {
  const auto [entry, is_new] = open_.try_emplace(name);
  Open& open = entry->second;
  if (is_new) open.first = offer;
  open.differs = open.differs || offer.descriptor != open.first.descriptor;
  open.grace = std::max(open.grace, offer.grace);
  open.weights.emplace(from, offer.weight);
  OnLate(from, {name.channel, name.seq - 1});
}

void InputQuorum::OnLate(PeerId from, const OpName& name) {
  const auto missed = missed_.find({from, name.channel});
  if (missed != missed_.end() && missed->second <= name.seq) missed_.erase(missed);
}

bool InputQuorum::IsAwaited(PeerId peer, const OpName& name, const Open& open) const {
  return !open.weights.contains(peer) && !missed_.contains({peer, name.channel});
}

bool InputQuorum::IsDue(const OpName& name, Open& open, const View& view, TimePoint now) const {
  RINGWAY_REACHED_IF(open.differs, kOffersDiffer);
  if (open.differs) return true;
  const std::uint32_t quorum = Quorum{open.first.descriptor.quorum}.Of(view.world_size());
  if (open.weights.size() < quorum && !RINGWAY_MUTANT(kDecideBelowQuorum)) return false;
  if (!open.is_enough_since) open.is_enough_since = now;
  const bool is_over = now >= *open.is_enough_since + open.grace;
  const bool anybody = std::any_of(view.members.begin(), view.members.end(),
                                   [&](PeerId member) { return IsAwaited(member, name, open); });
  RINGWAY_REACHED_IF(!anybody && open.weights.size() < view.world_size(), kAwaitNobody);
  RINGWAY_REACHED_IF(anybody && is_over, kGoOnWithout);
  return !anybody || is_over;
}

std::vector<InputQuorum::Decision> InputQuorum::Decide(const View& view, TimePoint now) {
  std::vector<Decision> decided;
  for (auto entry = open_.begin(); entry != open_.end();) {
    auto& [name, open] = *entry;
    if (!IsDue(name, open, view, now)) {
      ++entry;
      continue;
    }
    Decision decision{.name = name, .descriptor = open.first.descriptor, .inputs = {}};
    for (std::uint32_t rank = 0; rank < view.world_size(); ++rank) {
      const PeerId member = view.members[rank];
      const auto found = open.weights.find(member);
      if (found == open.weights.end()) {
        decision.inputs.absent |= std::uint64_t{1} << rank;
        std::uint64_t& newest = missed_[{member, name.channel}];
        newest = std::max(newest, name.seq);
      }
      if (decision.descriptor.weighted)
        decision.inputs.weights.push_back(found == open.weights.end() ? 0 : found->second);
    }
    decided.push_back(std::move(decision));
    entry = open_.erase(entry);
  }
  return decided;
}

}  // namespace ringway::agreement
