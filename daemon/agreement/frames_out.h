// Frames that leave: the next segment of an operation, or of a fetch that is served, for a lane with room; again, what
// was lost on its way.
//
//   lane has room --> an operation's segment (send_queue.h), --encoded, counted--> on its way
//                     in turn with one that the other end fetches                   |
//                ^------------- lost with its lane, while its attempt is live ------+
//
// Invariant: each fetch that is served is a live attempt of its own, of a result that this rank holds.
//
// Ownership: the Peer's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "daemon/agreement/attempts.h"
#include "daemon/agreement/buffer_guard.h"
#include "daemon/agreement/context.h"
#include "daemon/agreement/links.h"
#include "daemon/agreement/membership.h"
#include "daemon/agreement/message_frames.h"
#include "daemon/agreement/op_table.h"
#include "daemon/agreement/operation.h"
#include "daemon/agreement/operation_watch.h"
#include "daemon/agreement/send_queue.h"
#include "daemon/collective/executor.h"
#include "proto/control.pb.h"
#include "proto/ids.h"
#include "proto/segment_header.h"

namespace ringway::agreement {

class FramesOut {
 public:
  // All outlive it.
  FramesOut(Context& ctx, Attempts& attempts, Links& links, OpTable& table, SendQueue& queue, Membership& membership,
            OperationWatch& watch, BufferGuard& guard, MessageFrames& messages)
      : ctx_(ctx),
        attempts_(attempts),
        links_(links),
        table_(table),
        queue_(queue),
        membership_(membership),
        watch_(watch),
        guard_(guard),
        messages_(messages) {}
  FramesOut(const FramesOut&) = delete;
  FramesOut& operator=(const FramesOut&) = delete;

  // The next segment for the lane, which counts as sent; false: there is none. `scratch`: as of Peer::NextSegment.
  bool Next(const LinkId& lane, std::uint32_t payload_bytes_max, std::span<std::byte> scratch, Outbound& out);
  // Adds those for which there may be one, each once.
  void AddPeersWithWork(std::vector<PeerId>& peers) const;
  // Lost on the way to `to`: sent again, unless its attempt is over.
  void OnLost(PeerId to, const links::SentFrame& frame);
  // The other end had no room for it, and has now.
  void OnAgain(PeerId from, const control::Again& again);

  // ---- fetches
  // `from` asks for a result. REQUIRES: it is a member.
  void Serve(PeerId from, const OpName& name);
  bool serves() const { return !serving_.empty(); }
  void StopServing();
  // Everybody holds it.
  void Forget(const OpName& name);

 private:
  struct Serving {  // a fetch that this rank answers
    OpName name;
    PeerId to;
    std::uint64_t attempt = 0;
    std::unique_ptr<collective::Executor> executor;
    Keep keep;
  };
  // What a lane sent last. Each lane goes round by itself: with turns that lanes share, those for small segments would
  // always take the same ones.
  struct LaneTurns {
    bool fetched = false;  // a segment of a fetch
    bool message = false;  // .. or, of its own, a message's
    StreamName stream;     // of its last message
  };
  struct Offer {  // what a lane can take
    PeerId to;
    Rank rank;
    std::uint32_t bytes_max = 0;
    std::span<std::byte> scratch;
    LaneTurns* turns = nullptr;
  };
  struct FrameSource {
    collective::Executor* executor = nullptr;
    SegmentKind kind = SegmentKind::kData;
    Keep keep;                         // of what the executor reads
    BufferGuard::Copy copy = nullptr;  // to be sent instead of that; null: none
  };
  // A segment that was popped; returns false if the copy does not fit the hash of what it is a copy of.
  bool EncodeFrame(const FrameSource& source, links::SentFrame& frame, const Offer& offer, Outbound& out) const;
  bool NextOf(Operation& op, const Offer& offer, Outbound& out, links::SentFrame& sent);
  // Of the operations.
  bool NextQueued(const Offer& offer, Outbound& out, links::SentFrame& sent);
  // Of operations and messages, which take turns.
  bool NextOwn(const Offer& offer, Outbound& out, links::SentFrame& sent);
  // Of whatever `offer.to` fetches.
  bool NextFetched(const Offer& offer, Outbound& out, links::SentFrame& sent);
  bool NextServed(Serving& serving, const Offer& offer, Outbound& out, links::SentFrame& sent);

  Context& ctx_;
  Attempts& attempts_;
  Links& links_;
  OpTable& table_;
  SendQueue& queue_;
  Membership& membership_;
  OperationWatch& watch_;
  BufferGuard& guard_;
  MessageFrames& messages_;
  std::map<LinkId, LaneTurns> turns_;
  std::vector<Serving> serving_;
};

}  // namespace ringway::agreement
