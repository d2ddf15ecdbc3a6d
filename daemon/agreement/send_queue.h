// Whose turn it is to be sent to a rank (ready_index.h), and whether it may be sent: within the eager window.
//
//   of an operation that the receiver has submitted    at once
//   .. that it may not have submitted yet              while all such bytes to it fit the plan's eager window
//   .. small, and the next one on its channel          at once: READY for it is only said late, and all may wait for it
//
// Invariants: `unready_` of a peer is the sum of `unready_bytes` for it over all operations; what is blocked in the
// index (ready_index.h) is what the window did not let go when it was last asked.
//
// Ownership: the Peer's; it outlives the executors, which report to its index.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "daemon/agreement/context.h"
#include "daemon/agreement/op_table.h"
#include "daemon/agreement/operation.h"
#include "daemon/agreement/ready_index.h"
#include "proto/ids.h"

namespace ringway::agreement {

class SendQueue {
 public:
  // `ctx` outlives it; `table` may be made after it and go before it.
  SendQueue(Context& ctx, OpTable& table) : ctx_(ctx), table_(table) {}
  SendQueue(const SendQueue&) = delete;
  SendQueue& operator=(const SendQueue&) = delete;

  // ---- what changes the window
  // `peer` has submitted it, too.
  void MarkReady(Operation& op, PeerId peer);
  // It runs no more: what was sent of it is not waited for.
  void Release(Operation& op);
  // It has an outcome here, as its table says: the next one on its channel may be sent, if it is small.
  void OnComplete(const Operation& op);
  void OnView() { index_.UnblockAll(); }

  // ---- sending
  // The next operation with a segment for the rank that fits.
  std::optional<ReadyIndex::Choice> Next(Rank to, std::uint32_t bytes_max) const { return index_.Next(to, bytes_max); }
  // Its segment was sent, and the others have their turn. So one large operation does not hold up others.
  void Sent(const ReadyIndex::Choice& choice, Rank to, std::uint32_t bytes_max) {
    index_.Sent(choice, to, bytes_max);
    if (choice.is_aged) ++ctx_.counts.segments_aged;
  }
  // It was not; it is not asked again until something has changed.
  void NotNow(const Turn& turn, Rank to) { index_.NotNow(turn, to); }
  bool MayBeSent(const Operation& op, PeerId to, std::uint32_t bytes) const;
  // Returns what the window is charged for it.
  std::uint64_t Charge(Operation& op, PeerId to, std::uint32_t bytes);
  // It was lost on its way.
  void Refund(Operation& op, PeerId to, std::uint64_t cost);

  const ReadyIndex& index() const { return index_; }
  ReadyIndex* mutable_index() { return &index_; }

 private:
  Context& ctx_;
  OpTable& table_;
  ReadyIndex index_;
  std::map<PeerId, std::uint64_t> unready_;  // bytes sent to a peer for operations that it is not ready for
};

}  // namespace ringway::agreement
