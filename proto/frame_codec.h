// Control frames, little-endian:
//
//   bytes 0..2   length of what follows the header
//   byte  3      kFrameFormat; 0 in protocol version 1, which had no checksums
//   bytes 4..7   the lower half of Hash64(bytes 0..3)
//   bytes 8..15  Hash64(message)
//   then         one serialized control message
//
// A flipped byte in a control message is a wrong count, epoch or verdict, and TCP's checksum does not find all of them.
// So nothing is parsed before its checksum is right, and the length, by which the next frame is found, has one of its
// own. The length is checked before anything is allocated for it.
#pragma once

#include <google/protobuf/message_lite.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "proto/result.h"

namespace ringway {

inline constexpr std::uint32_t kFrameBytesMax = 4 << 20;
inline constexpr std::uint32_t kFrameFormat = 0x52;
inline constexpr std::size_t kFrameHeaderBytes = 8;
inline constexpr std::size_t kFrameChecksumBytes = 8;
inline constexpr std::uint32_t kProtocolVersionMin = 3;
inline constexpr std::uint32_t kProtocolVersionMax = 3;

// The highest version that both ranges contain, or nothing.
std::optional<std::uint32_t> AgreeVersion(std::uint32_t other_min, std::uint32_t other_max);

// Appends one frame to `out`. REQUIRES: the message serializes to at most kFrameBytesMax.
void AppendFrame(const google::protobuf::MessageLite& message, std::string& out);
// As protocol version 1 had them, to refuse those who speak it in their own words.
void AppendVersion1Frame(const google::protobuf::MessageLite& message, std::string& out);

// Cuts a byte stream into frames. Holds at most one frame and what was fed after it.
//
//   reader.Feed(bytes);  while (auto frame = reader.Next()) ...;  reader.CheckHeader()
//
// One thread. After a failure the stream is beyond repair: close it.
class FrameReader {
 public:
  // kProtocol if a header cannot be right, kVersionMismatch if it is one of protocol version 1.
  Status Feed(std::span<const std::byte> bytes);
  // The next whole frame behind its header, for ParseFrame; valid until the next call of Feed or Next; nothing if it is
  // not here yet.
  std::optional<std::span<const std::byte>> Next();
  // As Feed, of the header that comes next.
  Status CheckHeader() const;
  // What has been fed but not consumed as frames, for handing a connection over.
  std::span<const std::byte> Rest() const;

 private:
  std::string buffer_;
  std::size_t consumed_ = 0;
};

// Parses `frame`, checksum and message, into `message`; kProtocol if it fails its checksum or is not one.
Status ParseFrame(std::span<const std::byte> frame, google::protobuf::MessageLite& message);

}  // namespace ringway
