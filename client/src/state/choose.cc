#include "client/src/state/choose.h"

#include <algorithm>
#include <set>
#include <tuple>

namespace ringway::internal {
namespace {

std::uint64_t HighestStanding(const std::vector<Offer>& offers) {
  std::uint64_t highest = 0;
  for (const Offer& offer : offers) highest = std::max(highest, offer.standing);
  return highest;
}

}  // namespace

bool HaveOneLayout(const std::vector<Offer>& offers) {
  const auto differs = [&](const Offer& offer) { return offer.layout != offers.front().layout; };
  return std::none_of(offers.begin(), offers.end(), differs);
}

bool GoesTogether(const std::vector<Offer>& offers, std::size_t rank) {
  if (HaveOneLayout(offers)) return true;
  std::set<std::uint64_t> in_use;
  const std::uint64_t highest = HighestStanding(offers);
  for (const Offer& offer : offers) {
    if (highest > 0 && offer.standing == highest) in_use.insert(offer.layout);
  }
  return in_use.size() == 1 && in_use.contains(offers[rank].layout);
}

std::size_t ReferenceRank(const std::vector<Offer>& offers) {
  const auto lower = [](const Offer& a, const Offer& b) { return a.standing < b.standing; };
  return static_cast<std::size_t>(std::max_element(offers.begin(), offers.end(), lower) - offers.begin());
}

std::uint64_t ReplayFrom(const std::vector<Offer>& offers, std::size_t source,
                         const std::vector<std::uint64_t>& peers) {
  constexpr auto kTrains = static_cast<std::uint64_t>(Standing::kTrains);
  if (peers.size() != offers.size() || offers[source].standing != kTrains) return 0;
  std::uint64_t from = 0;
  for (std::size_t rank = 0; rank < offers.size(); ++rank) {
    if (!offers[rank].replays()) return 0;
    if (!offers[rank].IsSameState(offers[source])) from = from == 0 ? peers[rank] : std::min(from, peers[rank]);
  }
  for (std::size_t rank = 0; rank < offers.size(); ++rank) {
    if (from != 0 && peers[rank] >= from && offers[rank].standing == kTrains) return 0;
  }
  return from;
}

Result<std::size_t> ChooseSource(const std::vector<Offer>& offers, std::size_t rank) {
  const auto sends = [&](const Offer& offer) {
    return offer.Is(StateStrategy::kSend) && offer.layout == offers[rank].layout;
  };
  const bool any_sends = std::any_of(offers.begin(), offers.end(), sends);
  const std::uint64_t highest = HighestStanding(offers);
  const auto may_be_taken = [&](const Offer& offer) {
    if (any_sends) return sends(offer);
    return !offer.Is(StateStrategy::kReceive) && offer.standing == highest;
  };
  const auto have = [&](const Offer& state) {  // ranks that receive count, too
    return std::count_if(offers.begin(), offers.end(), [&](const Offer& offer) { return offer.IsSameState(state); });
  };
  const Offer* chosen = nullptr;
  for (const Offer& offer : offers) {
    if (!may_be_taken(offer)) continue;
    if (any_sends && chosen != nullptr && !offer.IsSameState(*chosen)) {
      return Status(Code::kMismatch, "ranks that send have different shared states");
    }
    if (chosen == nullptr || std::tuple(offer.revision, have(offer)) > std::tuple(chosen->revision, have(*chosen))) {
      chosen = &offer;
    }
  }
  if (chosen == nullptr) return Status(Code::kMismatch, "all ranks receive the shared state, and none has it");
  const auto is_source = [&](const Offer& offer) {
    return !offer.Is(StateStrategy::kReceive) && offer.IsSameState(*chosen);
  };
  return static_cast<std::size_t>(std::find_if(offers.begin(), offers.end(), is_source) - offers.begin());
}

}  // namespace ringway::internal
