// Frames that arrive: what becomes of each header, and of its payload when that is whole.
//
//   header  of an old view, a finished operation, a position that is done    discarded, unjudged
//           of an operation that runs here                                   its executor claims the position
//           of one that is not submitted yet, or of a later view             held (early_frames.h)
//   payload fails its checksum                                               the lane is to be closed
//           of a claimed position                                            accepted: reduced or copied
//           held                                                             waits until its operation takes it
//
// Invariant: a lane has at most one frame in flight, whose position is claimed or whose room is reserved until it is
// taken, or dropped with its lane.
//
// Ownership: the Peer's. It returns the operation that a frame has advanced; the caller acts on that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <variant>

#include "daemon/agreement/attempts.h"
#include "daemon/agreement/buffer_guard.h"
#include "daemon/agreement/context.h"
#include "daemon/agreement/early_frames.h"
#include "daemon/agreement/links.h"
#include "daemon/agreement/membership.h"
#include "daemon/agreement/message_frames.h"
#include "daemon/agreement/op_table.h"
#include "daemon/agreement/operation.h"
#include "daemon/agreement/operation_watch.h"
#include "daemon/agreement/send_queue.h"
#include "daemon/collective/executor.h"
#include "proto/ids.h"
#include "proto/result.h"
#include "proto/segment_header.h"

namespace ringway::agreement {

class FramesIn {
 public:
  // All outlive it.
  FramesIn(Context& ctx, const Attempts& attempts, Links& links, OpTable& table, SendQueue& queue,
           Membership& membership, OperationWatch& watch, BufferGuard& guard, MessageFrames& messages);
  ~FramesIn();
  FramesIn(const FramesIn&) = delete;
  FramesIn& operator=(const FramesIn&) = delete;

  // ---- lanes
  struct Judged {
    Inbound inbound;
    bool differs = false;  // from what was submitted here: there is trouble to act on
  };
  Result<Judged> OnHeader(const LinkId& lane, const SegmentHeader& header);
  struct Taken {
    enum class As : std::uint8_t { kNothing, kHeld, kAccepted, kMessage } as = As::kNothing;
    Operation* op = nullptr;  // that it belongs to; null: not submitted here yet, or a message's
  };
  Result<Taken> OnPayload(const LinkId& lane, std::span<const std::byte> payload, std::uint64_t hash);
  // It is closed: what was half read from it will not come.
  void Drop(const LinkId& lane);
  void DropAllOf(PeerId other);

  // ---- operations. REQUIRES, where frames are accepted or asked for: it has an executor.
  bool Holds(const Operation& op) const { return held_.Has(op.name, ctx_.view().epoch); }
  // Feeds held frames to their operation, about `bytes_max` of them. Returns how many bytes it went through.
  std::uint64_t Feed(Operation& op, std::uint64_t bytes_max);
  // It needs none of them.
  void Forget(const Operation& op) { held_.Drop(op.name, ctx_.view().epoch); }
  // Asks for what found no room when it came and has its turn now.
  void AskAgain(Operation& op);
  // What another rank submitted as this operation. A difference is an agreed outcome: this rank reports it, and every
  // rank gets the same typed error. Returns whether there is none.
  bool CheckDescriptor(Operation& op, const Descriptor& theirs, PeerId from);

  // ---- views
  // Frames of a stopped epoch will never be used; their room belongs to the next view's eager window.
  void OnStop() { held_.DropBelow(Epoch(ctx_.views.stop().value + 1)); }
  void OnView() { held_.DropBelow(ctx_.view().epoch); }

  std::uint64_t held_bytes() const { return held_.bytes(); }

 private:
  struct Claimed {
    std::uint64_t attempt = 0;
    collective::Executor::Claim claim;
  };
  struct InFlight {
    SegmentHeader header;
    std::variant<std::monostate, Claimed, EarlyFrame, MessageFrames::Place> place = {};  // the first: there is none
  };

  Result<Judged> Hold(const LinkId& lane, const SegmentHeader& header);
  Result<Judged> OnMessageHeader(const LinkId& lane, const SegmentHeader& header);
  bool IsOver(const InFlight& frame);
  void GiveUp(InFlight& frame);
  void OnFailedPayload(const InFlight& frame);
  Taken Take(const InFlight& frame, std::span<const std::byte> payload);
  // A held frame meets its operation. Returns whether the next one may.
  bool Accept(Operation& op, const SegmentHeader& header, PeerId from, std::span<const std::byte> payload);

  Context& ctx_;
  const Attempts& attempts_;
  Links& links_;
  OpTable& table_;
  SendQueue& queue_;
  Membership& membership_;
  OperationWatch& watch_;
  BufferGuard& guard_;
  MessageFrames& messages_;
  EarlyFrames held_;
  std::map<LinkId, InFlight> in_flight_;  // of lanes that have had one: a frame allocates nothing
};

}  // namespace ringway::agreement
