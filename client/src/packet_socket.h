// The client's end of the local ABI's socket: sends and receives whole packets, with deadlines.
//
// Lifetime: connected from Connect to destruction; guarded against forks. In a forked child the destructor does
// nothing, because the descriptor is closed there already.
//
// Threads: Send from any number; Receive from one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ringway/ringway.hpp>
#include <string>
#include <vector>

#include "client/src/deadline.h"
#include "proto/local_abi.h"

namespace ringway::internal {

// One received packet. The largest that a client receives is StateHeld.
struct Packet {
  std::byte bytes[1024];
  std::size_t size_bytes = 0;

  abi::PacketType type() const {
    abi::PacketHeader header;
    std::memcpy(&header, bytes, sizeof(header));
    return header.type;
  }

  // Returns false if the packet is of another type or too short. REQUIRES: T is the struct of `wanted`.
  template <typename T>
  bool Read(abi::PacketType wanted, T* out) const {
    if (type() != wanted || size_bytes < sizeof(T)) return false;
    std::memcpy(out, bytes, sizeof(T));
    return true;
  }
};

class PacketSocket {
 public:
  enum class Received { kPacket, kWoken, kTimeout, kInterrupted, kClosed, kMalformed };

  PacketSocket() = default;
  PacketSocket(PacketSocket&& other) noexcept;
  PacketSocket& operator=(PacketSocket&& other) noexcept;
  ~PacketSocket();

  // kDaemonUnreachable if nobody listens there.
  static Result<PacketSocket> Connect(const std::string& path, const Deadline& deadline);

  // Sends one of the ABI's structs, with `descriptor` attached unless it is -1. Waits for room until `deadline`
  // (kTimeout); kDaemonLost if the other side is gone.
  template <typename T>
  Status Send(const T& packet, const Deadline& deadline, int descriptor = -1) {
    return SendBytes(&packet, sizeof(packet), descriptor, deadline);
  }

  // Sends a struct and what follows it. REQUIRES: it begins with a struct of the ABI.
  Status Send(const std::vector<std::byte>& packet, const Deadline& deadline) {
    return SendBytes(packet.data(), packet.size(), -1, deadline);
  }

  // Blocks until a packet can be sent, or the other side is gone.
  Status AwaitRoom(const Deadline& deadline) const;

  // kClosed at the end of the stream or on reset, kMalformed for a packet that violates the ABI.
  Received Receive(Packet* packet, const Deadline& deadline);

  // Ends a Receive in another thread, or the next one, with kWoken.
  void Wake() const;

  // Wakes a Receive in another thread; the daemon reads what was sent, then the end.
  void Shutdown();

 private:
  Status SendBytes(const void* bytes, std::size_t size_bytes, int descriptor, const Deadline& deadline);
  void Close();

  int fd_ = -1;
  int wake_ = -1;  // an eventfd
  std::uint64_t generation_ = 0;
};

template <typename T>
T MakePacket(abi::PacketType type) {
  T packet{};
  packet.header = {abi::kMagic, type};
  return packet;
}

// NUL-terminates; truncates longer texts.
template <std::size_t size>
void CopyText(char (&to)[size], const std::string& from) {
  const std::size_t length = from.size() < size ? from.size() : size - 1;
  std::memcpy(to, from.data(), length);
  to[length] = '\0';
}

// Returns a text that the daemon wrote, perhaps without a terminating NUL.
template <std::size_t size>
std::string TextOf(const char (&text)[size]) {
  return std::string(text, strnlen(text, size));
}

}  // namespace ringway::internal
