// Frames of operations that arrive: what becomes of each header, and of its payload when that is whole.
//
//   header  of a finished operation, a position that is done      discarded, unjudged
//           of an operation that runs here                        its attempt claims the position
//           of one that is not submitted yet, or of a later view  held (transfer/early_frames.h)
//   payload of a claimed position                                 accepted: reduced or copied
//           held                                                  waits until its operation takes it
//
// Ownership: Operations'. It returns the operation that a frame has advanced; the caller acts on that.
#pragma once

#include <cstdint>
#include <span>

#include "daemon/agreement/context.h"
#include "daemon/agreement/judged.h"
#include "daemon/agreement/links.h"
#include "daemon/agreement/op_table.h"
#include "daemon/agreement/operation.h"
#include "daemon/transfer/transfer.h"
#include "proto/ids.h"
#include "proto/result.h"
#include "proto/segment_header.h"

namespace ringway::agreement {

class OpFrames {
 public:
  // All outlive it.
  OpFrames(Context& ctx, Links& links, OpTable& table, transfer::Transfer& transfer)
      : ctx_(ctx), links_(links), table_(table), transfer_(transfer) {}
  OpFrames(const OpFrames&) = delete;
  OpFrames& operator=(const OpFrames&) = delete;

  // ---- lanes
  // REQUIRES: its epoch is not over.
  Result<Judged> OnHeader(const LinkId& lane, const SegmentHeader& header);
  struct Taken {
    Operation* op = nullptr;  // that it belongs to; null: not submitted here yet
    bool accepted = false;    // else it is held
  };
  // A payload that is intact.
  Taken Take(transfer::FramesIn::Frame& frame, std::span<const std::byte> payload);

  // ---- operations. REQUIRES, where frames are accepted or asked for: its attempt is live.
  bool Holds(const Operation& op) const { return held_.Has(op.name, ctx_.view().epoch); }
  // Feeds held frames to their operation, about `bytes_max` of them. Returns how many bytes it went through.
  std::uint64_t Feed(Operation& op, std::uint64_t bytes_max);
  // It needs none of them.
  void Forget(const Operation& op) { held_.Drop(op.name, ctx_.view().epoch); }
  // Asks for what found no room when it came and has its turn now.
  void RequestResends(Operation& op);
  // Compares the descriptor that another rank submitted for this operation. A difference is an agreed outcome: this
  // rank reports it, and every rank gets the same typed error. Returns whether there is none.
  bool CheckDescriptor(Operation& op, const Descriptor& theirs, PeerId from);
  // Likewise with those of the ranks that it shares a round with. Returns whether it has one: no READY is needed.
  bool CheckRound(Operation& op);

  // ---- views
  // Frames of a stopped epoch will never be used; their room belongs to the next view's eager window.
  void OnStop() { held_.DropBelow(Epoch(ctx_.views.stop().value + 1)); }
  void OnView() { held_.DropBelow(ctx_.view().epoch); }

 private:
  Result<Judged> Hold(const LinkId& lane, const SegmentHeader& header);
  // A held frame meets its operation. Returns whether the next one may.
  bool FeedOne(Operation& op, const transfer::EarlyFrame& frame);

  Context& ctx_;
  Links& links_;
  OpTable& table_;
  transfer::Transfer& transfer_;
  transfer::EarlyFrames held_;
};

}  // namespace ringway::agreement
