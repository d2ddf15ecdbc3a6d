// Recently dropped peers and the reasons, for daemons that were disconnected at that time and ask later.
//
// Values; threads: one.
#pragma once

#include <ringway/types.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "proto/ids.h"

namespace ringway {

struct FormerPeer {
  PeerId peer;
  std::string group{}, name{};
  std::string address{};       // of its daemon
  std::string daemon{};        // its name
  std::uint64_t instance = 0;  // its process
  Code code = Code::kEvicted;  // kLeft: it left
  std::string why{};           // for the log
  std::string text{};          // for the trainer: why, and what to do
};

class FormerPeers {
 public:
  static constexpr std::size_t kMax = 4096;

  // Drops the oldest entry if there are kMax. REQUIRES: a peer is added once.
  void Add(FormerPeer former) {
    if (order_.size() >= kMax) {
      peers_.erase(order_.front());
      order_.pop_front();
    }
    const PeerId peer = former.peer;
    order_.push_back(peer);
    peers_[peer] = std::move(former);
    new_ = std::min(new_ + 1, kMax);
  }

  // Returns those added since the last call, oldest first, except dropped entries.
  std::vector<FormerPeer> TakeNew() {
    std::vector<FormerPeer> taken;
    for (std::size_t i = order_.size() - std::exchange(new_, 0); i < order_.size(); ++i) {
      taken.push_back(peers_.at(order_[i]));
    }
    return taken;
  }

  // Null if there is no entry.
  const FormerPeer* Find(PeerId peer) const {
    const auto found = peers_.find(peer);
    return found == peers_.end() ? nullptr : &found->second;
  }

  std::size_t size() const { return peers_.size(); }

 private:
  std::map<PeerId, FormerPeer> peers_;
  std::deque<PeerId> order_;  // oldest first
  std::size_t new_ = 0;       // entries at the end of order_ that TakeNew has not returned
};

}  // namespace ringway
