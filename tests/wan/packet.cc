#include "tests/wan/packet.h"

#include <algorithm>
#include <cstring>

namespace ringway::wan {
namespace {

// linux/virtio_net.h is not C++. In the machine's byte order.
struct VirtioHeader {
  std::uint8_t flags;
  std::uint8_t gso_type;
  std::uint16_t header_bytes;
  std::uint16_t gso_size;
  std::uint16_t checksum_start;
  std::uint16_t checksum_offset;
};
constexpr std::uint8_t kNeedsChecksum = 1;
constexpr std::uint8_t kGsoNone = 0, kGsoTcp4 = 1, kGsoEcn = 0x80;
constexpr std::size_t kVirtio = sizeof(VirtioHeader);
static_assert(kVirtio == 10);
constexpr std::uint8_t kTcp = 6;
constexpr std::size_t kIpMin = 20, kTcpMin = 20;
// Offsets in the IP header, and in the TCP header.
constexpr std::size_t kIpLength = 2, kIpProtocol = 9, kIpChecksum = 10, kIpSource = 12, kIpDestination = 16;
constexpr std::size_t kTcpSequence = 4, kTcpAcknowledged = 8, kTcpOffset = 12, kTcpFlags = 13, kTcpWindow = 14,
                      kTcpChecksum = 16, kTcpUrgent = 18;
constexpr std::uint8_t kFinOrPush = 0x09, kPush = 0x08, kSyn = 0x02, kAck = 0x10;
constexpr std::uint8_t kCwr = 0x80;

std::uint8_t Get8(const Bytes& frame, std::size_t at) { return static_cast<std::uint8_t>(frame[at]); }
std::uint32_t Get16(const Bytes& frame, std::size_t at) { return Get8(frame, at) << 8 | Get8(frame, at + 1); }
std::uint32_t Get32(const Bytes& frame, std::size_t at) { return Get16(frame, at) << 16 | Get16(frame, at + 2); }
void Put16(Bytes* frame, std::size_t at, std::uint32_t value) {
  (*frame)[at] = static_cast<std::byte>(value >> 8);
  (*frame)[at + 1] = static_cast<std::byte>(value);
}
void Put32(Bytes* frame, std::size_t at, std::uint32_t value) {
  Put16(frame, at, value >> 16);
  Put16(frame, at + 2, value);
}

std::uint32_t Sum16(const Bytes& frame, std::size_t at, std::size_t bytes) {
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i + 1 < bytes; i += 2) sum += Get16(frame, at + i);
  return bytes % 2 == 0 ? sum : sum + (static_cast<std::uint32_t>(Get8(frame, at + bytes - 1)) << 8);
}

std::uint32_t Fold(std::uint32_t sum) {
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  return sum;
}

VirtioHeader Virtio(const Bytes& frame) {
  VirtioHeader header{};
  std::memcpy(&header, frame.data(), kVirtio);
  return header;
}

bool IsTcp(const Bytes& frame) { return Get8(frame, kVirtio + kIpProtocol) == kTcp; }

bool IsEqual(const Bytes& frame, const Bytes& other, std::size_t at, std::size_t bytes) {
  return std::memcmp(frame.data() + at, other.data() + at, bytes) == 0;
}

// The lengths, and what is computed from them. The TCP checksum is left as its pseudo-header's, for the kernel that
// takes the packet: it trusts a packet that is marked so.
void Restore(Bytes* frame, std::size_t ip_bytes) {
  const std::size_t total = frame->size() - kVirtio;
  Put16(frame, kVirtio + kIpLength, static_cast<std::uint32_t>(total));
  Put16(frame, kVirtio + kIpChecksum, 0);
  Put16(frame, kVirtio + kIpChecksum, 0xffff & ~Fold(Sum16(*frame, kVirtio, ip_bytes)));
  const std::uint32_t pseudo =
      Sum16(*frame, kVirtio + kIpSource, 8) + kTcp + static_cast<std::uint32_t>(total - ip_bytes);
  Put16(frame, kVirtio + ip_bytes + kTcpChecksum, Fold(pseudo));
}

void MarkChecksumMissing(Bytes* frame, std::size_t ip_bytes) {
  VirtioHeader header = Virtio(*frame);
  header.flags = kNeedsChecksum;
  header.checksum_start = static_cast<std::uint16_t>(ip_bytes);
  header.checksum_offset = kTcpChecksum;
  std::memcpy(frame->data(), &header, kVirtio);
}

std::size_t IpBytes(const Bytes& frame) { return std::size_t{4} * (Get8(frame, kVirtio) & 15); }

}  // namespace

std::uint32_t PacketInfo::WireBytes(std::uint32_t segment) const {
  const std::uint32_t before = segment * segment_bytes;
  return header_bytes + std::min(segment_bytes, payload_bytes - before);
}

std::optional<PacketInfo> Inspect(const Bytes& frame) {
  if (frame.size() < kVirtio + kIpMin || Get8(frame, kVirtio) >> 4 != 4) return std::nullopt;
  const std::size_t ip_bytes = IpBytes(frame);
  const std::size_t total = frame.size() - kVirtio;
  if (ip_bytes < kIpMin || ip_bytes > total || Get16(frame, kVirtio + kIpLength) != total) return std::nullopt;
  PacketInfo info;
  info.destination = Get32(frame, kVirtio + kIpDestination);
  info.header_bytes = static_cast<std::uint32_t>(total);
  if (Get8(frame, kVirtio + kIpProtocol) == kTcp) {
    if (total < ip_bytes + kTcpMin) return std::nullopt;
    const std::size_t tcp_bytes = std::size_t{4} * (Get8(frame, kVirtio + ip_bytes + kTcpOffset) >> 4);
    if (tcp_bytes < kTcpMin || total < ip_bytes + tcp_bytes) return std::nullopt;
    info.header_bytes = static_cast<std::uint32_t>(ip_bytes + tcp_bytes);
    info.opens = (Get8(frame, kVirtio + ip_bytes + kTcpFlags) & (kSyn | kAck)) == kSyn;
  }
  info.payload_bytes = static_cast<std::uint32_t>(total) - info.header_bytes;
  info.segment_bytes = info.payload_bytes;
  const VirtioHeader virtio = Virtio(frame);
  if ((virtio.gso_type & ~kGsoEcn) == kGsoTcp4 && virtio.gso_size > 0 && info.payload_bytes > virtio.gso_size) {
    info.segment_bytes = virtio.gso_size;
    info.segments = (info.payload_bytes + virtio.gso_size - 1) / virtio.gso_size;
  }
  return info;
}

Bytes Slice(const Bytes& frame, const PacketInfo& info, std::uint32_t first, std::uint32_t count) {
  if (count == info.segments) return frame;
  const std::size_t headers = kVirtio + info.header_bytes;
  const std::size_t begin = std::size_t{first} * info.segment_bytes;
  const std::size_t end = std::min<std::size_t>(begin + std::size_t{count} * info.segment_bytes, info.payload_bytes);
  Bytes out(frame.begin(), frame.begin() + static_cast<std::ptrdiff_t>(headers));
  out.insert(out.end(), frame.begin() + static_cast<std::ptrdiff_t>(headers + begin),
             frame.begin() + static_cast<std::ptrdiff_t>(headers + end));
  const std::size_t ip_bytes = IpBytes(frame);
  const std::size_t tcp = kVirtio + ip_bytes;
  Put32(&out, tcp + kTcpSequence, Get32(frame, tcp + kTcpSequence) + static_cast<std::uint32_t>(begin));
  std::uint8_t flags = Get8(frame, tcp + kTcpFlags);
  if (first + count < info.segments) flags = static_cast<std::uint8_t>(flags & ~kFinOrPush);
  if (first > 0) flags = static_cast<std::uint8_t>(flags & ~kCwr);
  out[tcp + kTcpFlags] = static_cast<std::byte>(flags);
  if (count == 1) {
    VirtioHeader header = Virtio(out);
    header.gso_type = kGsoNone;
    header.gso_size = 0;
    std::memcpy(out.data(), &header, kVirtio);
  }
  MarkChecksumMissing(&out, ip_bytes);
  Restore(&out, ip_bytes);
  return out;
}

bool IsSameStream(const Bytes& frame, const Bytes& other) {
  if (!IsTcp(frame) || !IsTcp(other)) return false;
  const std::size_t ip_bytes = IpBytes(frame);
  return IpBytes(other) == ip_bytes && IsEqual(frame, other, kVirtio + kIpSource, 8) &&
         IsEqual(frame, other, kVirtio + ip_bytes, kTcpSequence);  // the ports
}

bool Merge(Bytes* frame, const Bytes& next) {
  if (!IsSameStream(*frame, next)) return false;
  const PacketInfo info = *Inspect(*frame);
  const PacketInfo more = *Inspect(next);
  const std::size_t ip_bytes = IpBytes(*frame);
  const std::size_t tcp = kVirtio + ip_bytes;
  const std::size_t headers = kVirtio + info.header_bytes;
  const std::uint8_t next_flags = Get8(next, tcp + kTcpFlags);
  const bool follows = Get8(*frame, tcp + kTcpFlags) == kAck && (next_flags & ~kPush) == kAck &&
                       Get32(next, tcp + kTcpSequence) == Get32(*frame, tcp + kTcpSequence) + info.payload_bytes;
  // All but sequence number, flags and checksum.
  const bool same_headers = more.header_bytes == info.header_bytes &&
                            IsEqual(*frame, next, tcp + kTcpAcknowledged, kTcpFlags - kTcpAcknowledged) &&
                            IsEqual(*frame, next, tcp + kTcpWindow, kTcpChecksum - kTcpWindow) &&
                            IsEqual(*frame, next, tcp + kTcpUrgent, info.header_bytes - ip_bytes - kTcpUrgent);
  const bool whole_segments = info.payload_bytes > 0 && info.payload_bytes % info.segment_bytes == 0 &&
                              more.payload_bytes > 0 && more.segment_bytes <= info.segment_bytes &&
                              (more.segments == 1 || more.segment_bytes == info.segment_bytes);
  if (!follows || !same_headers || !whole_segments || frame->size() + more.payload_bytes > kFrameBytesMax - 1) {
    return false;
  }
  frame->insert(frame->end(), next.begin() + static_cast<std::ptrdiff_t>(headers), next.end());
  (*frame)[tcp + kTcpFlags] = static_cast<std::byte>(next_flags);
  VirtioHeader header = Virtio(*frame);
  header.gso_type = kGsoTcp4;
  header.gso_size = static_cast<std::uint16_t>(info.segment_bytes);
  header.header_bytes = static_cast<std::uint16_t>(info.header_bytes);
  std::memcpy(frame->data(), &header, kVirtio);
  MarkChecksumMissing(frame, ip_bytes);
  Restore(frame, ip_bytes);
  return true;
}

void Corrupt(Bytes* frame, const PacketInfo& info, std::uint64_t random) {
  if (info.payload_bytes == 0 || Get8(*frame, kVirtio + kIpProtocol) != kTcp) return;
  const std::size_t at = kVirtio + info.header_bytes + random % info.payload_bytes;
  (*frame)[at] ^= static_cast<std::byte>(1 + (random >> 32) % 255);
  const std::size_t ip_bytes = IpBytes(*frame);
  MarkChecksumMissing(frame, ip_bytes);
  Restore(frame, ip_bytes);
}

}  // namespace ringway::wan
