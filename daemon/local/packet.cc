#include "daemon/local/packet.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace ringway::local {
namespace {

// Room for one descriptor: the kernel drops further ones (MSG_CTRUNC) without a descriptor of ours.
constexpr std::size_t kAncillaryBytes = CMSG_LEN(sizeof(int));

net::UniqueFd TakeDescriptor(msghdr& message) {
  const cmsghdr* part = CMSG_FIRSTHDR(&message);
  if (part == nullptr || part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) return {};
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(part), sizeof fd);
  return net::UniqueFd(fd);
}

// Neither asks a file system, which may not answer.
bool IsMemory(int fd) { return ::fcntl(fd, F_GET_SEALS) >= 0; }
bool IsSocket(int fd) {
  int type = 0;
  socklen_t bytes = sizeof type;
  return ::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &bytes) == 0;
}

}  // namespace

ReceivedPacket ReceivePacket(int socket, std::span<std::byte> buffer) {
  alignas(cmsghdr) std::array<char, kAncillaryBytes> ancillary;
  iovec part{.iov_base = buffer.data(), .iov_len = buffer.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = ancillary.data();
  message.msg_controllen = ancillary.size();
  ReceivedPacket packet;
  ssize_t got = 0;
  do {
    got = ::recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  if (got < 0) {
    packet.outcome = errno == EAGAIN || errno == EWOULDBLOCK ? ReadOutcome::kWouldBlock : ReadOutcome::kClosed;
    return packet;
  }
  packet.fd = TakeDescriptor(message);
  const bool has_descriptor = packet.fd.valid();
  packet.bytes = buffer.first(static_cast<std::size_t>(got));
  packet.outcome = ReadOutcome::kPacket;
  const bool cut = (message.msg_flags & MSG_CTRUNC) != 0;
  if (got == 0 && !has_descriptor && !cut) packet.outcome = ReadOutcome::kClosed;
  if ((message.msg_flags & MSG_TRUNC) != 0) {
    packet.fault = {Code::kProtocol, "a packet is longer than any that exists"};
  } else if (cut && has_descriptor) {
    packet.fault = {Code::kProtocol, "a packet carries more than one descriptor"};
  } else if (has_descriptor && !IsMemory(packet.fd.get())) {
    packet.fault = {Code::kProtocol, "the descriptor is no memfd"};
  } else if (cut) {  // truncated although `ancillary` had room: this process is out of descriptors
    packet.fault = {
        Code::kResourceExhausted,
        "the daemon has no file descriptor left to take this one's: raise its LimitNOFILE, then join again"};
  }
  if (packet.fault.ok()) return packet;
  packet.outcome = ReadOutcome::kBroken;
  if (has_descriptor && !IsMemory(packet.fd.get()) && !IsSocket(packet.fd.get())) packet.foreign = std::move(packet.fd);
  packet.fd.Reset();
  return packet;
}

SendOutcome SendPacket(int socket, std::span<const std::byte> bytes) {
  ssize_t sent = 0;
  do {
    sent = ::send(socket, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  if (sent >= 0) return SendOutcome::kSent;
  return errno == EAGAIN || errno == EWOULDBLOCK ? SendOutcome::kWouldBlock : SendOutcome::kFailed;
}

Result<std::string> GetText(std::span<const char> from, const char* what) {
  const auto end = std::find(from.begin(), from.end(), '\0');
  if (end == from.end()) return Status(Code::kProtocol, std::string(what) + " is not NUL-terminated");
  const bool printable = std::all_of(from.begin(), end, [](char c) { return c >= ' ' && c <= '~'; });
  if (!printable)
    return Status(Code::kInvalidArgument, std::string(what) + " holds a character outside printable ASCII");
  return std::string(from.begin(), end);
}

}  // namespace ringway::local
