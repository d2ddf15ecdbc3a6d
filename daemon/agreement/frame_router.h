// Which part of a peer a frame reaches: operations or messages, and nobody if its view is over.
//
// Ownership: the Peer's. Where a header differs from what was submitted, or a payload was taken, the caller acts on
// what has come of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "daemon/agreement/context.h"
#include "daemon/agreement/links.h"
#include "daemon/agreement/message_frames.h"
#include "daemon/agreement/op_frames.h"
#include "daemon/agreement/operations.h"
#include "daemon/transfer/transfer.h"
#include "proto/ids.h"
#include "proto/result.h"
#include "proto/segment_header.h"

namespace ringway::agreement {

class FrameRouter {
 public:
  // All outlive it.
  FrameRouter(Context& ctx, Links& links, Operations& operations, MessageFrames& messages, transfer::Transfer& transfer)
      : ctx_(ctx), links_(links), operations_(operations), messages_(messages), transfer_(transfer) {}
  FrameRouter(const FrameRouter&) = delete;
  FrameRouter& operator=(const FrameRouter&) = delete;

  Result<Judged> OnHeader(const LinkId& lane, const SegmentHeader& header);
  // Returns whether somebody took it.
  Result<bool> OnPayload(const LinkId& lane, std::span<const std::byte> payload, std::uint64_t hash);

  // The next frame for the lane, which counts as sent; false: there is none. `scratch`: as of Peer::NextSegment.
  bool Next(const LinkId& lane, std::uint32_t payload_bytes_max, std::span<std::byte> scratch, Outbound& out);
  // Adds those for which there may be one, each once.
  void AddPeersWithWork(std::vector<PeerId>& peers) const;

 private:
  // Returns whether nobody awaits the frame's payload any more.
  bool IsOver(const transfer::FramesIn::Frame& frame) const;

  Context& ctx_;
  Links& links_;
  Operations& operations_;
  MessageFrames& messages_;
  transfer::Transfer& transfer_;
};

}  // namespace ringway::agreement
