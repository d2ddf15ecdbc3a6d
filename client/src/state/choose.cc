#include "client/src/state/choose.h"

#include <algorithm>
#include <set>
#include <string>
#include <tuple>

namespace ringway::internal {
namespace {

Error LayoutsDiffer(const std::vector<Offer>& offers) {
  std::set<std::uint64_t> sizes;
  for (const Offer& offer : offers) sizes.insert(offer.bytes);
  if (sizes.size() == 1) {
    return Error(Code::kMismatch,
                 "ranks have shared states of tensors with other names or sizes: list the same on all");
  }
  std::string list;
  for (const std::uint64_t bytes : sizes) list += (list.empty() ? "" : ", ") + std::to_string(bytes);
  return Error(Code::kMismatch, "ranks have shared states of [" + list + "] bytes: list the same tensors on all");
}

std::uint64_t HighestStanding(const std::vector<Offer>& offers) {
  std::uint64_t highest = 0;
  for (const Offer& offer : offers) highest = std::max(highest, offer.standing);
  return highest;
}

// Whether this rank's state goes together with all others, or at least with that which is in use.
bool IsOfTheTraining(const std::vector<Offer>& offers, std::size_t rank) {
  std::set<std::uint64_t> all;
  std::set<std::uint64_t> in_use;
  const std::uint64_t highest = HighestStanding(offers);
  for (const Offer& offer : offers) {
    all.insert(offer.layout);
    if (highest > 0 && offer.standing == highest) in_use.insert(offer.layout);
  }
  return all.size() == 1 || (in_use.size() == 1 && in_use.contains(offers[rank].layout));
}

}  // namespace

Expected<std::size_t> ChooseGiver(const std::vector<Offer>& offers, std::size_t rank) {
  if (!IsOfTheTraining(offers, rank)) return LayoutsDiffer(offers);
  const auto sends = [](const Offer& offer) { return offer.Is(StateStrategy::kSend); };
  const bool any_sends = std::any_of(offers.begin(), offers.end(), sends);
  const std::uint64_t highest = HighestStanding(offers);
  const auto may_be_taken = [&](const Offer& offer) {
    if (any_sends) return sends(offer);
    return !offer.Is(StateStrategy::kReceive) && offer.standing == highest;
  };
  const auto have = [&](const Offer& state) {  // who has no say counts, too
    return std::count_if(offers.begin(), offers.end(), [&](const Offer& offer) { return offer.IsSameState(state); });
  };
  const Offer* chosen = nullptr;
  for (const Offer& offer : offers) {
    if (!may_be_taken(offer)) continue;
    if (any_sends && chosen != nullptr && !offer.IsSameState(*chosen)) {
      return Error(Code::kMismatch, "ranks that send have different shared states");
    }
    if (chosen == nullptr || std::tuple(offer.revision, have(offer)) > std::tuple(chosen->revision, have(*chosen))) {
      chosen = &offer;
    }
  }
  if (chosen == nullptr) return Error(Code::kMismatch, "all ranks receive the shared state, and none has it");
  const auto gives = [&](const Offer& offer) {
    return !offer.Is(StateStrategy::kReceive) && offer.IsSameState(*chosen);
  };
  return static_cast<std::size_t>(std::find_if(offers.begin(), offers.end(), gives) - offers.begin());
}

}  // namespace ringway::internal
