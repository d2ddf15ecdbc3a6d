// Trainers that write to memory of an operation in flight: how it is noticed (buffer_watch.h), and what follows.
//
//   a segment is to leave while the peer is cautious     from a copy that is compared with its hash
//   a payload comes meanwhile                            by scratch, verified before it is put into the output
//   a copy, a refused source or a failed target differs  the trainer wrote to it: the peer leaves
//
// The peer leaves at once, as one whose trainer died: the others abort the view and go on without it. Its trainer's
// operations and its session end with kBufferModified, whatever else the leaving comes to.
//
// Ownership: the Peer's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "daemon/agreement/attempts.h"
#include "daemon/agreement/buffer_watch.h"
#include "daemon/agreement/context.h"
#include "daemon/agreement/membership.h"
#include "daemon/agreement/op_table.h"
#include "daemon/agreement/operation.h"
#include "daemon/collective/executor.h"
#include "daemon/links/lane_ledger.h"

namespace ringway::agreement {

class BufferGuard {
 public:
  using Copy = std::shared_ptr<const std::vector<std::byte>>;

  // All outlive it.
  BufferGuard(Context& ctx, OpTable& table, const Attempts& attempts, Membership& membership)
      : ctx_(ctx), table_(table), attempts_(attempts), membership_(membership) {}
  BufferGuard(const BufferGuard&) = delete;
  BufferGuard& operator=(const BufferGuard&) = delete;

  // An attempt, and the trainer's memory that it works on.
  struct Use {
    std::uint64_t attempt = 0;
    const collective::Executor& executor;
    const OpBuffers& buffers;
  };

  // ---- out
  // What to send instead of the source; null: the source.
  Copy CautiousCopy(const Operation& op, const collective::Ready& ready) const;
  Copy CautiousCopy(const Use& use, const collective::Ready& ready) const;
  // Of a result in its trainer's memory; null: it is not what the others have.
  static Copy SealedCopy(Operation& op, const collective::Range& range);
  // Keeps the hashes that its executor knows. REQUIRES: before the executor goes.
  static void Seal(Operation& op);
  // The other end says that the segment failed its checksum.
  void OnRefused(const links::SentFrame& frame);
  // The same of this attempt's. Returns whether its trainer wrote there.
  [[nodiscard]] bool IsModified(const Use& use, const links::SentFrame& frame);

  // ---- in
  // Straight into the output, unless its trainer may be writing there.
  void ChooseTarget(const Operation& op, collective::Executor::Claim& claim);
  void ChooseTarget(const Use& use, collective::Executor::Claim& claim);
  // Its payload fails its checksum.
  void OnFailedPayload(const Operation& op, std::uint64_t attempt, const collective::Executor::Claim& claim);
  void OnFailedPayload(const Use& use, const collective::Executor::Claim& claim);
  // REQUIRES: its payload has been verified and is not accepted yet.
  void CheckTarget(const Operation& op, const collective::Executor::Claim& claim);
  // Returns whether its trainer wrote there. REQUIRES: as before.
  [[nodiscard]] bool HasChanged(const Use& use, const collective::Executor::Claim& claim);

  // The trainer wrote to its `buffer`, "input" or "output".
  void OnModified(const Operation& op, const std::string& buffer) {
    OnModified("operation " + ToString(op.name), buffer);
  }
  void OnModified(const std::string& what, const std::string& buffer);

 private:
  static Use UseOf(const Operation& op) { return {op.attempt, *op.executor, *op.buffers}; }
  static bool IsTrainersSource(const Use& use, const collective::Ready& ready);
  static BufferWatch::Place PlaceOf(std::uint64_t attempt, const collective::Executor::Claim& claim) {
    return {.attempt = attempt, .arrival = claim.arrival, .segment = claim.segment};
  }

  Context& ctx_;
  OpTable& table_;
  const Attempts& attempts_;
  Membership& membership_;
  BufferWatch watch_;
};

}  // namespace ringway::agreement
