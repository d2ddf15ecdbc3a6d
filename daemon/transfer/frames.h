// Frames as they cross the seam between a peer and its shell: where a payload goes, and what is to be sent.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "daemon/buffers/op_buffers.h"
#include "proto/segment_header.h"

namespace ringway::transfer {

using buffers::Keep;

// Says where a payload goes. kDirect: read straight into `target`, payload_bytes of it. kScratch: read into a buffer of
// the shell, then OnPayload. kDiscard: skip the payload, do not call OnPayload.
struct Inbound {
  enum class Kind : std::uint8_t { kDirect, kScratch, kDiscard };
  Kind kind = Kind::kDiscard;
  std::byte* target = nullptr;
  std::uint64_t attempt = 0;  // for IsLive
  Keep keep;                  // holds the memory behind target
};

// A segment to send: header, then payload. `keep` holds the memory behind payload until the last byte is written.
struct Outbound {
  std::array<std::byte, kSegmentHeaderBytes> header;
  std::span<const std::byte> payload;
  Keep keep;
};

}  // namespace ringway::transfer
