// Peers that were dropped, so that it can still be said who they were and why: a daemon that was away meanwhile asks
// when it is back.
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
  std::string told{};          // for the trainer: why, and what to do
};

class FormerPeers {
 public:
  static constexpr std::size_t kMax = 4096;

  // Forgets the one that was added first if there are too many. REQUIRES: a peer is added once.
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

  // Those that were added since the last call and are not forgotten, as they were added.
  std::vector<FormerPeer> TakeNew() {
    std::vector<FormerPeer> taken;
    for (std::size_t i = order_.size() - std::exchange(new_, 0); i < order_.size(); ++i) {
      taken.push_back(peers_.at(order_[i]));
    }
    return taken;
  }

  // Null if it is not known, or no more.
  const FormerPeer* Find(PeerId peer) const {
    const auto found = peers_.find(peer);
    return found == peers_.end() ? nullptr : &found->second;
  }

  std::size_t size() const { return peers_.size(); }

 private:
  std::map<PeerId, FormerPeer> peers_;
  std::deque<PeerId> order_;  // of peers_, as they were added
  std::size_t new_ = 0;       // the last ones of order_ that TakeNew has not returned
};

}  // namespace ringway
