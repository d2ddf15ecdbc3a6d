// Control frames, little-endian:
//
//   bytes 0..2   length of what follows the header
//   byte  3      kFrameFormat; 0 in protocol version 1, which had no checksums
//   bytes 4..7   the lower half of Hash64(bytes 0..3)
//   bytes 8..15  Hash64(message)
//   then         one serialized control message
//
// A flipped byte in a control message is a wrong count, epoch or verdict, and TCP's checksum does not find all of them.
// Nothing is parsed before its checksum is verified. The length has a checksum of its own, because the next frame is
// found by it, and is verified before anything is allocated.
#pragma once

#include <google/protobuf/message_lite.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "proto/result.h"
#include "proto/versions.h"

namespace ringway {

inline constexpr std::uint32_t kFrameBytesMax = 4 << 20;
inline constexpr std::uint32_t kFrameFormat = 0x52;
inline constexpr std::size_t kFrameHeaderBytes = 8;
inline constexpr std::size_t kFrameChecksumBytes = 8;
inline constexpr std::uint32_t kProtocolVersionMin = 11;
inline constexpr std::uint32_t kProtocolVersionMax = 11;
inline constexpr Versions kProtocolVersions{kProtocolVersionMin, kProtocolVersionMax};

// Appends one frame to `out`. REQUIRES: the message serializes to at most kFrameBytesMax.
void AppendFrame(const google::protobuf::MessageLite& message, std::string& out);
// A frame in the format of protocol version 1, to send such a peer a refusal that it can read.
void AppendVersion1Frame(const google::protobuf::MessageLite& message, std::string& out);

// Splits a byte stream into frames. Buffers at most one frame and what was fed after it.
//
//   reader.Feed(bytes);  while (auto frame = reader.Next()) ...;  reader.CheckHeader()
//
// One thread. After a failure the framing is lost: close the connection.
class FrameReader {
 public:
  // kProtocol if a header is invalid, kVersionMismatch if it is one of protocol version 1.
  Status Feed(std::span<const std::byte> bytes);
  // Returns the next whole frame without its header, for ParseFrame; nothing if it is incomplete. Valid until the next
  // call of Feed or Next.
  std::optional<std::span<const std::byte>> Next();
  // Checks the next frame's header as Feed does.
  Status CheckHeader() const;
  // Bytes fed but not consumed as frames, for handing a connection over.
  std::span<const std::byte> Rest() const;

 private:
  std::string buffer_;
  std::size_t consumed_ = 0;
};

// Verifies the checksum of `frame` and parses it into `message`; kProtocol if either fails.
Status ParseFrame(std::span<const std::byte> frame, google::protobuf::MessageLite& message);

}  // namespace ringway
