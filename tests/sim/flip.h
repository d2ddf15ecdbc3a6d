// A frame with one bit flipped in transit, decoded as its receiver does.
#pragma once

#include <google/protobuf/message_lite.h>

#include <memory>
#include <random>
#include <span>
#include <string>

#include "proto/frame_codec.h"

namespace ringway::sim {

inline void FlipABit(std::span<std::byte> bytes, std::mt19937_64& random) {
  bytes[random() % bytes.size()] ^= std::byte{1} << (random() % 8);
}

// Returns whether the receiver refuses the frame, rather than taking it for a message or the start of a longer one.
inline bool IsRefusedWhenFlipped(const google::protobuf::MessageLite& message, std::mt19937_64& random) {
  std::string frame;
  AppendFrame(message, frame);
  FlipABit(std::as_writable_bytes(std::span(frame)), random);
  FrameReader reader;
  if (!reader.Feed(std::as_bytes(std::span(frame))).ok()) return true;
  const auto whole = reader.Next();
  const std::unique_ptr<google::protobuf::MessageLite> parsed(message.New());
  return whole.has_value() && !ParseFrame(*whole, *parsed).ok();
}

}  // namespace ringway::sim
