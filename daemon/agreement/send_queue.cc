#include "daemon/agreement/send_queue.h"

#include <utility>

#include "daemon/agreement/early_frames.h"
#include "proto/mutation.h"

namespace ringway::agreement {

void SendQueue::MarkReady(Operation& op, PeerId peer) {
  if (!op.ready.insert(peer).second) return;
  if (const auto sent = op.unready_bytes.find(peer); sent != op.unready_bytes.end()) {
    unready_[peer] -= sent->second;
    op.unready_bytes.erase(sent);
  }
  if (const auto rank = ctx_.view().RankOf(peer)) index_.Unblock(*rank);
}

void SendQueue::Release(Operation& op) {
  for (const auto& [peer, bytes] : std::exchange(op.unready_bytes, {})) {
    unready_[peer] -= bytes;
    if (const auto rank = ctx_.view().RankOf(peer)) index_.Unblock(*rank);
  }
}

void SendQueue::OnComplete(const Operation& op) {
  const Operation* const next = table_.Find({op.name.channel, table_.CompleteUpto(op.name.channel) + 1});
  if (next != nullptr) index_.Unblock(TurnOf(*next));
}

bool SendQueue::MayBeSent(const Operation& op, PeerId to, std::uint32_t bytes) const {
  if (op.ready.contains(to)) return true;
  // Nobody says READY for a small operation, so the window must not stop the one that the others wait for.
  const bool is_next = table_.CompleteUpto(op.name.channel) + 1 == op.name.seq;
  if (!RINGWAY_MUTANT(kWindowStopsAll) && op.is_small(ctx_.view().plan) && is_next) return true;
  const auto sent = unready_.find(to);
  const std::uint64_t already = sent == unready_.end() ? 0 : sent->second;
  return already + bytes + EarlyFrames::kOverheadBytes <= ctx_.view().plan.eager_bytes_max;
}

std::uint64_t SendQueue::Charge(Operation& op, PeerId to, std::uint32_t bytes) {
  if (op.ready.contains(to)) return 0;
  const std::uint64_t cost = bytes + EarlyFrames::kOverheadBytes;
  op.unready_bytes[to] += cost;
  unready_[to] += cost;
  return cost;
}

void SendQueue::Refund(Operation& op, PeerId to, std::uint64_t cost) {
  const auto unready = op.unready_bytes.find(to);
  if (unready == op.unready_bytes.end()) return;
  unready->second -= cost;
  unready_[to] -= cost;
  if (const auto rank = ctx_.view().RankOf(to)) index_.Unblock(*rank);
}

}  // namespace ringway::agreement
