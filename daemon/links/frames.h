// Segments as they cross the seam between a peer and the lane that carries them: where a payload goes, and what is to
// be sent.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "proto/segment_header.h"

namespace ringway::links {

// Says where a payload goes. kDirect: into `target`, payload_bytes of it, while `attempt` is live. kScratch: into a
// buffer of the lane's pool. kDiscard: nowhere, and OnPayload is not called.
struct Inbound {
  enum class Kind : std::uint8_t { kDirect, kScratch, kDiscard };
  Kind kind = Kind::kDiscard;
  bool adds = false;  // it will be summed up, not copied
  std::byte* target = nullptr;
  std::uint64_t attempt = 0;         // for IsLive
  std::shared_ptr<const void> keep;  // holds the memory behind target
};

// A segment to send: header, then payload. `keep` holds the memory behind payload until the last byte is written, and
// is released on the owner's thread. `attempt`: whose bytes they are, for IsLive; 0: nobody's.
struct Outbound {
  std::array<std::byte, kSegmentHeaderBytes> header;
  std::span<const std::byte> payload;
  std::shared_ptr<const void> keep;
  std::uint64_t attempt = 0;
};

}  // namespace ringway::links
