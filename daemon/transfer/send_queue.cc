#include "daemon/transfer/send_queue.h"

#include <algorithm>

#include "daemon/transfer/early_frames.h"

namespace ringway::transfer {

void SendQueue::OnView(const std::vector<PeerId>& members, std::uint64_t window_bytes) {
  members_ = members;
  window_bytes_ = window_bytes;
  index_.UnblockAll();
}

void SendQueue::UnblockFor(PeerId to) {
  const auto member = std::find(members_.begin(), members_.end(), to);
  if (member != members_.end()) index_.Unblock(Rank(static_cast<std::uint32_t>(member - members_.begin())));
}

void SendQueue::MarkReady(Attempt& attempt, PeerId peer) {
  if (!attempt.ready_peers.insert(peer).second) return;
  window_.Release(attempt, peer);
  UnblockFor(peer);
}

void SendQueue::Release(Attempt& attempt) {
  while (!attempt.eager_bytes.empty()) {
    const PeerId peer = attempt.eager_bytes.begin()->first;
    window_.Release(attempt, peer);
    UnblockFor(peer);
  }
}

bool SendQueue::MayBeSent(const Attempt& attempt, PeerId to, std::uint32_t bytes) const {
  if (attempt.ready_peers.contains(to) || attempt.goes_at_once) return true;
  return window_.Used(to) + bytes + EarlyRoom::kOverheadBytes <= window_bytes_;
}

std::uint64_t SendQueue::Charge(Attempt& attempt, PeerId to, std::uint32_t bytes) {
  if (attempt.ready_peers.contains(to)) return 0;
  const std::uint64_t cost = bytes + EarlyRoom::kOverheadBytes;
  window_.Charge(attempt, to, cost);
  return cost;
}

void SendQueue::Refund(Attempt& attempt, PeerId to, std::uint64_t cost) {
  if (cost > 0 && window_.Refund(attempt, to, cost)) UnblockFor(to);
}

}  // namespace ringway::transfer
