// Messages of views that are not installed here yet, kept until one is.
//
//   Add --> kept --OnView--> due --Take--> handled again: now, in the view that they mean, or kept for a later one
//
// Bounded: kMax and kBytesMax of each peer; what exceeds it is dropped.
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

  static constexpr std::size_t kBytesMax = std::size_t{1} << 20;  // honest ones have some 100

  void Add(PeerId from, const control::PeerMessage& message) {
    std::vector<control::PeerMessage>& messages = messages_[from];
    std::size_t& bytes = bytes_[from];
    const std::size_t more = message.ByteSizeLong();
    if (messages.size() == kMax || more > kBytesMax - bytes) return;
    bytes += more;
    messages.push_back(message);
  }
  void Forget(PeerId from) {
    messages_.erase(from);
    bytes_.erase(from);
  }
  void OnView() { due_ = true; }
  // All, once after a view was installed; else none.
  ByPeer Take() {
    if (!std::exchange(due_, false)) return {};
    bytes_.clear();
    return std::exchange(messages_, {});
  }

 private:
  ByPeer messages_;
  std::map<PeerId, std::size_t> bytes_;
  bool due_ = false;  // a view was installed: it may be theirs
};

}  // namespace ringway::agreement
