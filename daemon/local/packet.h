// Packets of the local ABI on a SOCK_SEQPACKET socket, with at most one descriptor each.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "proto/fixed_text.h"
#include "proto/local_abi.h"
#include "proto/result.h"
#include "proto/stream/unique_fd.h"

namespace ringway::local {

enum class ReadOutcome { kPacket, kWouldBlock, kClosed, kBroken };

struct ReceivedPacket {
  ReadOutcome outcome = ReadOutcome::kWouldBlock;
  std::span<const std::byte> bytes;  // within the caller's buffer
  net::UniqueFd fd;                  // a memfd, or another file in memory
  net::UniqueFd foreign;             // kBroken: any other file but a socket; its close may block
  Status fault;                      // kBroken: what the sender did wrong, or what we lack
};

// Reads one packet into `buffer`. Never blocks, but as CloseGuard says: descriptors beyond the first, and sockets, are
// closed and make the packet kBroken.
ReceivedPacket ReceivePacket(int socket, std::span<std::byte> buffer);

enum class SendOutcome { kSent, kWouldBlock, kFailed };
SendOutcome SendPacket(int socket, std::span<const std::byte> bytes);

// Returns the packet as a T, or kProtocol if its length differs.
template <typename T>
Result<T> PacketAs(std::span<const std::byte> bytes) {
  static_assert(std::is_trivially_copyable_v<T>);
  if (bytes.size() != sizeof(T)) return Status(Code::kProtocol, "a packet has the wrong length for its type");
  T packet;
  std::memcpy(&packet, bytes.data(), sizeof packet);
  return packet;
}

// A T with its header filled in and everything else zero.
template <typename T>
T MakePacket(abi::PacketType type) {
  T packet{};
  packet.header = {abi::kMagic, type};
  return packet;
}

// Returns the text up to its NUL; kProtocol if there is none or a character is not printable ASCII.
Result<std::string> GetText(std::span<const char> from, const char* what);

}  // namespace ringway::local
