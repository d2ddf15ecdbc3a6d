// Messages of views that are not installed here yet, kept until one is.
//
//   Add --> kept --OnView--> due --Take--> handled again: now, in the view that they mean, or kept for a later one
//
// Bounded: kMax of each peer; what exceeds it is dropped.
#pragma once

#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#include "proto/control.pb.h"
#include "proto/ids.h"

namespace ringway::agreement {

class EarlyMessages {
 public:
  using ByPeer = std::map<PeerId, std::vector<control::PeerMessage>>;
  static constexpr std::size_t kMax = 4096;  // three of each open operation, and more

  void Add(PeerId from, const control::PeerMessage& message) {
    std::vector<control::PeerMessage>& messages = messages_[from];
    if (messages.size() < kMax) messages.push_back(message);
  }
  void OnView() { due_ = true; }
  // All, once after a view was installed; else none.
  ByPeer Take() { return std::exchange(due_, false) ? std::exchange(messages_, {}) : ByPeer(); }

 private:
  ByPeer messages_;
  bool due_ = false;  // a view was installed: it may be theirs
};

}  // namespace ringway::agreement
