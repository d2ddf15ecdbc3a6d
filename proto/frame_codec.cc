#include "proto/frame_codec.h"

#include <algorithm>
#include <cstring>

#include "proto/check.h"
#include "proto/hash.h"

namespace ringway {
namespace {

constexpr std::size_t kLengthBytes = 4;
constexpr std::uint32_t kLengthMask = (1U << 24) - 1;
constexpr std::uint32_t kLengthMax = kFrameBytesMax + kFrameChecksumBytes;
static_assert(kLengthMax <= kLengthMask);

std::uint32_t WordAt(const char* bytes) {
  std::uint32_t word = 0;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

std::uint32_t CheckOf(std::uint32_t word) {
  return static_cast<std::uint32_t>(Hash64(std::as_bytes(std::span(&word, 1))));
}

}  // namespace

void AppendFrame(const google::protobuf::MessageLite& message, std::string& out) {
  const std::size_t length = message.ByteSizeLong();
  RINGWAY_CHECK(length <= kFrameBytesMax);
  const std::size_t start = out.size();
  out.resize(start + kFrameHeaderBytes + kFrameChecksumBytes + length);
  char* const header = out.data() + start;
  char* const body = header + kFrameHeaderBytes + kFrameChecksumBytes;
  message.SerializeWithCachedSizesToArray(reinterpret_cast<std::uint8_t*>(body));
  const std::uint32_t word = static_cast<std::uint32_t>(length + kFrameChecksumBytes) | kFrameFormat << 24;
  const std::uint32_t check = CheckOf(word);
  const std::uint64_t checksum = Hash64(std::as_bytes(std::span(body, length)));
  std::memcpy(header, &word, sizeof word);
  std::memcpy(header + sizeof word, &check, sizeof check);
  std::memcpy(header + kFrameHeaderBytes, &checksum, sizeof checksum);
}

void AppendVersion1Frame(const google::protobuf::MessageLite& message, std::string& out) {
  const std::string body = message.SerializeAsString();
  const auto length = static_cast<std::uint32_t>(body.size());
  out.append(reinterpret_cast<const char*>(&length), sizeof length);
  out += body;
}

Status FrameReader::CheckHeader() const {
  const std::size_t available = buffer_.size() - consumed_;
  if (available < kLengthBytes) return Status::Ok();
  const std::uint32_t word = WordAt(buffer_.data() + consumed_);
  const std::uint32_t length = word & kLengthMask;
  const std::uint32_t format = word >> 24;
  if (format == 0 && length <= kFrameBytesMax) {
    return {Code::kVersionMismatch, NoCommonVersion("this side", kProtocolVersions, "the other", {1, 1})};
  }
  if (format != kFrameFormat) return {Code::kProtocol, "this is no frame of a ringway peer"};
  if (length < kFrameChecksumBytes || length > kLengthMax) {
    return {Code::kProtocol, "frame of " + std::to_string(length) + " bytes is empty or exceeds the maximum of " +
                                 std::to_string(kLengthMax) + ": this is no ringway peer"};
  }
  if (available >= kFrameHeaderBytes && WordAt(buffer_.data() + consumed_ + kLengthBytes) != CheckOf(word)) {
    return {Code::kProtocol, "frame header fails its checksum: the link corrupts data"};
  }
  return Status::Ok();
}

Status FrameReader::Feed(std::span<const std::byte> bytes) {
  if (consumed_ > 0) {
    buffer_.erase(0, consumed_);
    consumed_ = 0;
  }
  buffer_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return CheckHeader();
}

std::optional<std::span<const std::byte>> FrameReader::Next() {
  const std::size_t available = buffer_.size() - consumed_;
  if (available < kFrameHeaderBytes || !CheckHeader().ok()) return std::nullopt;
  const std::uint32_t length = WordAt(buffer_.data() + consumed_) & kLengthMask;
  if (available - kFrameHeaderBytes < length) return std::nullopt;
  const auto* frame = reinterpret_cast<const std::byte*>(buffer_.data() + consumed_ + kFrameHeaderBytes);
  consumed_ += kFrameHeaderBytes + length;
  return std::span(frame, length);
}

std::span<const std::byte> FrameReader::Rest() const {
  return std::as_bytes(std::span(buffer_.data() + consumed_, buffer_.size() - consumed_));
}

Status ParseFrame(std::span<const std::byte> frame, google::protobuf::MessageLite& message) {
  std::uint64_t checksum = 0;
  if (frame.size() < sizeof checksum || frame.size() > kLengthMax) {
    return {Code::kProtocol, "a control frame of " + std::to_string(frame.size()) + " bytes cannot be"};
  }
  std::memcpy(&checksum, frame.data(), sizeof checksum);
  const std::span<const std::byte> body = frame.subspan(sizeof checksum);
  if (checksum != Hash64(body)) {
    return {Code::kProtocol, "control frame fails its checksum: the link corrupts data"};
  }
  if (!message.ParseFromArray(body.data(), static_cast<int>(body.size()))) {
    return {Code::kProtocol,
            "control message cannot be parsed: the other side is no ringway process, or not the one meant here (a "
            "daemon's port where the master's is wanted?)"};
  }
  return Status::Ok();
}

}  // namespace ringway
