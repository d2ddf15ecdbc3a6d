#include "master/planning/host_rates.h"

namespace ringway {

std::string KeyInRates(const control::PeerInfo& peer) {
  return peer.daemon().empty() ? peer.address() : peer.daemon() + " " + peer.address();
}

void HostRates::Learn(const std::string& from, const std::string& to, std::uint64_t rate) {
  if (from.empty()) return;
  const Pair pair(from, to);
  const auto [found, is_new] = rates_.try_emplace(pair);
  if (!is_new) order_.erase(found->second.learned);
  found->second = {.rate = rate, .learned = next_++};
  order_.emplace(found->second.learned, pair);
  if (rates_.size() <= kMax) return;
  rates_.erase(order_.begin()->second);
  order_.erase(order_.begin());
}

std::uint64_t HostRates::Known(const std::string& from, const std::string& to) const {
  const auto found = rates_.find({from, to});
  return found == rates_.end() ? 0 : found->second.rate;
}

}  // namespace ringway
