// Bytes that were sent to peers that may have no use for them yet: they hold them until their trainer has submitted the
// same. Each receiver's are bounded by whoever asks (Used).
//
// Invariant: what is used of a peer's window is the sum of `eager_bytes` for it over the attempts charged here.
//
// Pure; one thread.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "daemon/transfer/attempt.h"
#include "proto/ids.h"

namespace ringway::transfer {

class EagerWindow {
 public:
  std::uint64_t Used(PeerId to) const {
    const auto used = used_.find(to);
    return used == used_.end() ? 0 : used->second;
  }
  void Charge(Attempt& attempt, PeerId to, std::uint64_t cost) {
    attempt.eager_bytes[to] += cost;
    used_[to] += cost;
  }
  // A segment was lost on its way. Returns whether there is room again.
  bool Refund(Attempt& attempt, PeerId to, std::uint64_t cost) {
    const auto charged = attempt.eager_bytes.find(to);
    if (charged == attempt.eager_bytes.end()) return false;
    charged->second -= cost;
    Subtract(to, cost);
    return true;
  }
  // The peer has use for all of it. Returns whether there is room again.
  bool Release(Attempt& attempt, PeerId to) {
    const auto charged = attempt.eager_bytes.find(to);
    if (charged == attempt.eager_bytes.end()) return false;
    Subtract(to, charged->second);
    attempt.eager_bytes.erase(charged);
    return true;
  }

 private:
  // Subtracts `cost`, and forgets peers without any, so that nothing is kept of peers that have left.
  void Subtract(PeerId to, std::uint64_t cost) {
    const auto used = used_.find(to);
    used->second -= cost;
    if (used->second == 0) used_.erase(used);
  }

  std::map<PeerId, std::uint64_t> used_;
};

}  // namespace ringway::transfer
