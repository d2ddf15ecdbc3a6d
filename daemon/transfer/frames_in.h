// Frames whose payload is being read: one a lane at most, whose position is claimed or whose room is reserved until it
// is taken, or dropped with its lane.
//
//             Claim, Hold                  IsIntact                        Take, then Accept if it was claimed
//   (nothing) -----------> payload on its way --------> whole, as its header says ------------------> (nothing)
//                                     +---- Refuse: it fails its checksum; Drop: nobody awaits it ------------^
//
// The owners of attempts decide what becomes of a header, and whether a payload is still awaited
// (agreement/op_frames.h, agreement/message_frames.h).
//
// Ownership: the peer's. Pure; one thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>

#include "daemon/collective/executor.h"
#include "daemon/links/frames.h"
#include "daemon/links/link.h"
#include "daemon/transfer/attempt.h"
#include "daemon/transfer/buffer_guard.h"
#include "daemon/transfer/early_frames.h"
#include "proto/ids.h"
#include "proto/result.h"
#include "proto/segment_header.h"

namespace ringway::transfer {

class FramesIn {
 public:
  struct Frame {
    SegmentHeader header;
    std::uint64_t attempt = 0;            // that claimed it; 0: it is held
    collective::Executor::Claim claim{};  // of that attempt
    std::optional<EarlyFrame> held{};
  };

  // Both outlive it, and so does the room of what is held.
  FramesIn(const Attempts& attempts, BufferGuard& guard) : attempts_(attempts), guard_(guard) {}
  FramesIn(const FramesIn&) = delete;
  FramesIn& operator=(const FramesIn&) = delete;

  // ---- header. REQUIRES: no payload of the lane is on its way.
  // The attempt takes the payload from `from`, a rank of its schedule; kDiscard: it has it. kProtocol: it is none of
  // its schedule. REQUIRES: it is live, and its descriptor matches.
  Result<links::Inbound> Claim(const links::LinkId& lane, const SegmentHeader& header, Attempt& attempt, Rank from);
  // REQUIRES: the frame has room for its payload.
  links::Inbound Hold(const links::LinkId& lane, EarlyFrame frame);

  // ---- payload
  // Null: none is on its way.
  const Frame* Find(const links::LinkId& lane) const;
  static bool IsIntact(const Frame& frame, std::span<const std::byte> payload, std::uint64_t hash) {
    return payload.size() == frame.header.payload_bytes && hash == frame.header.payload_hash;
  }
  // It fails its checksum.
  void Refuse(const links::LinkId& lane);
  // It will not come, or nobody awaits it.
  void Drop(const links::LinkId& lane);
  void DropAllOf(PeerId other);
  // REQUIRES: Find(lane).
  Frame Take(const links::LinkId& lane);
  // Into its attempt, which is returned. REQUIRES: it was claimed, and that attempt is live.
  Attempt& Accept(const Frame& frame, std::span<const std::byte> payload);
  // The same of a frame that was held: claims, copies, accepts. Returns false if it had it already.
  static Result<bool> Feed(Attempt& attempt, const SegmentHeader& header, Rank from,
                           std::span<const std::byte> payload);

 private:
  void GiveUp(std::optional<Frame>& frame);

  const Attempts& attempts_;
  BufferGuard& guard_;
  std::map<links::LinkId, std::optional<Frame>> frames_;  // of lanes that have had one: a frame allocates nothing
};

}  // namespace ringway::transfer
