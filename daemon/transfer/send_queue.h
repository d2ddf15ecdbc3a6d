// Whose turn it is to be sent to a rank (ready_index.h), and whether it may be sent: within the eager window.
//
//   segment of an operation that the receiver has submitted    at once
//   of one that it may not have submitted yet                  while all such bytes to it fit the plan's eager window
//   of one that goes at once (Attempt::goes_at_once)           at once: nobody waits for READY of it
//
// Invariant: what is blocked in the index is what the window did not let go when it was last asked.
//
// Ownership: the peer's; it outlives the attempts, which report to its index.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "daemon/transfer/attempt.h"
#include "daemon/transfer/eager_window.h"
#include "daemon/transfer/ready_index.h"
#include "proto/ids.h"
#include "proto/peer_counts.h"

namespace ringway::transfer {

class SendQueue {
 public:
  // Outlives it.
  explicit SendQueue(PeerCounts& counts) : counts_(counts) {}
  SendQueue(const SendQueue&) = delete;
  SendQueue& operator=(const SendQueue&) = delete;

  // ---- what changes the window
  // The view in force: its members in rank order, and the plan's window.
  void OnView(const std::vector<PeerId>& members, std::uint64_t window_bytes);
  // `peer` has submitted it, too.
  void MarkReady(Attempt& attempt, PeerId peer);
  // It runs no more: what was sent of it is not waited for.
  void Release(Attempt& attempt);
  // Something about it has changed that may let it go.
  void Unblock(Attempt& attempt) { index_.Unblock(attempt.turn()); }

  // ---- sending
  // The next operation with a segment for the rank that fits.
  std::optional<ReadyIndex::Choice> Next(Rank to, std::uint32_t bytes_max) const { return index_.Next(to, bytes_max); }
  // Its segment was sent, and the others have their turn. So one large operation does not hold up others.
  void Sent(const ReadyIndex::Choice& choice, Rank to, std::uint32_t bytes_max) {
    index_.Sent(choice, to, bytes_max);
    if (choice.is_aged) ++counts_.segments_aged;
  }
  // It was not; it is not asked again until something has changed.
  void NotNow(const Turn& turn, Rank to) { index_.NotNow(turn, to); }
  bool MayBeSent(const Attempt& attempt, PeerId to, std::uint32_t bytes) const;
  // Returns what the window is charged for it.
  std::uint64_t Charge(Attempt& attempt, PeerId to, std::uint32_t bytes);
  // It was lost on its way.
  void Refund(Attempt& attempt, PeerId to, std::uint64_t cost);

  ReadyIndex& index() { return index_; }
  const ReadyIndex& index() const { return index_; }

 private:
  void UnblockFor(PeerId to);

  PeerCounts& counts_;
  ReadyIndex index_;
  EagerWindow window_;
  std::uint64_t window_bytes_ = 0;
  std::vector<PeerId> members_;
};

}  // namespace ringway::transfer
