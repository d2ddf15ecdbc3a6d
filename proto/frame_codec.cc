#include "proto/frame_codec.h"

#include <algorithm>
#include <cstring>

namespace ringway {
namespace {
constexpr std::size_t kLengthBytes = 4;
}  // namespace

std::optional<std::uint32_t> AgreeVersion(std::uint32_t other_min, std::uint32_t other_max) {
  const std::uint32_t highest = std::min(other_max, kProtocolVersionMax);
  if (highest < other_min || highest < kProtocolVersionMin) return std::nullopt;
  return highest;
}

void AppendFrame(const google::protobuf::MessageLite& message, std::string& out) {
  const std::size_t length = message.ByteSizeLong();
  RINGWAY_CHECK(length <= kFrameBytesMax);
  const std::size_t start = out.size();
  out.resize(start + kLengthBytes + length);
  const auto length32 = static_cast<std::uint32_t>(length);
  std::memcpy(out.data() + start, &length32, kLengthBytes);
  message.SerializeWithCachedSizesToArray(reinterpret_cast<std::uint8_t*>(out.data() + start + kLengthBytes));
}

Status FrameReader::CheckLength() const {
  if (buffer_.size() - consumed_ < kLengthBytes) return Status::Ok();
  std::uint32_t length = 0;
  std::memcpy(&length, buffer_.data() + consumed_, kLengthBytes);
  if (length > kFrameBytesMax) {
    return {Code::kProtocol, "frame of " + std::to_string(length) + " bytes exceeds the maximum of " +
                                 std::to_string(kFrameBytesMax) + ": this is no ringway peer"};
  }
  return Status::Ok();
}

Status FrameReader::Feed(std::span<const std::byte> bytes) {
  if (consumed_ > 0) {
    buffer_.erase(0, consumed_);
    consumed_ = 0;
  }
  buffer_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return CheckLength();
}

std::optional<std::span<const std::byte>> FrameReader::Next() {
  const std::size_t available = buffer_.size() - consumed_;
  if (available < kLengthBytes || !CheckLength().ok()) return std::nullopt;
  std::uint32_t length = 0;
  std::memcpy(&length, buffer_.data() + consumed_, kLengthBytes);
  if (available - kLengthBytes < length) return std::nullopt;
  const auto* payload = reinterpret_cast<const std::byte*>(buffer_.data() + consumed_ + kLengthBytes);
  consumed_ += kLengthBytes + length;
  return std::span(payload, length);
}

std::span<const std::byte> FrameReader::Rest() const {
  return std::as_bytes(std::span(buffer_.data() + consumed_, buffer_.size() - consumed_));
}

Status ParseFrame(std::span<const std::byte> frame, google::protobuf::MessageLite& message) {
  if (frame.size() > kFrameBytesMax || !message.ParseFromArray(frame.data(), static_cast<int>(frame.size()))) {
    return {Code::kProtocol, "control message cannot be parsed: is the other side a ringway process?"};
  }
  return Status::Ok();
}

}  // namespace ringway
