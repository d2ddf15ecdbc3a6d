// Control frames: a 4-byte little-endian length and that many bytes of one serialized control message.
//
// The length is checked against kFrameBytesMax before anything is allocated for it.
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
inline constexpr std::uint32_t kProtocolVersionMin = 1;
inline constexpr std::uint32_t kProtocolVersionMax = 1;

// The highest version that both ranges contain, or nothing.
std::optional<std::uint32_t> AgreeVersion(std::uint32_t other_min, std::uint32_t other_max);

// Appends one frame to `out`. REQUIRES: the message serializes to at most kFrameBytesMax.
void AppendFrame(const google::protobuf::MessageLite& message, std::string& out);

// Cuts a byte stream into frames. Holds at most one frame and what was fed after it.
//
//   reader.Feed(bytes);  while (auto frame = reader.Next()) ...
//
// One thread. After a failure the stream is beyond repair: close it.
class FrameReader {
 public:
  // kProtocol if a length exceeds the maximum.
  Status Feed(std::span<const std::byte> bytes);
  // The next whole frame's payload, valid until the next call of Feed or Next; nothing if it is not here yet.
  std::optional<std::span<const std::byte>> Next();
  // What has been fed but not consumed as frames, for handing a connection over.
  std::span<const std::byte> Rest() const;

 private:
  Status CheckLength() const;

  std::string buffer_;
  std::size_t consumed_ = 0;
};

// Parses `frame` into `message`; kProtocol if it is not one.
Status ParseFrame(std::span<const std::byte> frame, google::protobuf::MessageLite& message);

}  // namespace ringway
