// IPv4 packets in the format of a TUN device with IFF_VNET_HDR: a virtio header, then the packet, which may be a TCP
// super-packet of many segments (TSO) whose checksum is still to be computed.
//
// Only the namespaces' kernels write here, yet every length is checked: a packet that is not whole is not carried.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace ringway::wan {

using Bytes = std::vector<std::byte>;

inline constexpr std::size_t kFrameBytesMax = 10 + 65'536;

struct PacketInfo {
  std::uint32_t destination = 0;    // host byte order
  std::uint32_t header_bytes = 0;   // IP and TCP, of every segment; without TCP: of all
  std::uint32_t payload_bytes = 0;  // after those
  std::uint32_t segments = 1;
  std::uint32_t segment_bytes = 0;  // payload of each but the last
  bool opens = false;               // a TCP connection: SYN without ACK
  // Returns the bytes of its IP packets on the wire.
  std::uint32_t WireBytes(std::uint32_t segment) const;
};

// Returns nothing if the frame is no whole IPv4 packet.
std::optional<PacketInfo> Inspect(const Bytes& frame);

// The packet with only `count` of its segments, from `first`. REQUIRES: they are among info.segments.
Bytes Slice(const Bytes& frame, const PacketInfo& info, std::uint32_t first, std::uint32_t count);

// Returns whether both are of the same TCP stream, in the same direction. REQUIRES: both are whole.
bool IsSameStream(const Bytes& frame, const Bytes& other);
// Appends what follows it in the same TCP stream, as a receiving network card does, if both together are a
// super-packet: the same headers but for the sequence number, whole segments, at most 64 KiB. Returns whether it did.
// REQUIRES: both are whole.
bool Merge(Bytes* frame, const Bytes& next);

// Changes one byte of the payload, where there is one, so that TCP's checksum does not tell.
void Corrupt(Bytes* frame, const PacketInfo& info, std::uint64_t random);

}  // namespace ringway::wan
