#include "daemon/local/packet.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace ringway::local {
namespace {

constexpr std::size_t kDescriptorsMax = 4;  // the kernel discards further ones (MSG_CTRUNC)

// Takes every descriptor of the packet; returns their number.
std::size_t TakeDescriptors(msghdr& message, net::UniqueFd& first) {
  std::size_t count = 0;
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr; part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t here = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < here; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof fd);
      net::UniqueFd taken(fd);
      if (count++ == 0) first = std::move(taken);
    }
  }
  return count;
}

}  // namespace

ReceivedPacket ReceivePacket(int socket, std::span<std::byte> buffer) {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kDescriptorsMax * sizeof(int))> ancillary;
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
  const std::size_t descriptors = TakeDescriptors(message, packet.fd);
  packet.bytes = buffer.first(static_cast<std::size_t>(got));
  packet.outcome = ReadOutcome::kPacket;
  if (got == 0 && descriptors == 0) packet.outcome = ReadOutcome::kClosed;
  const bool cut = (message.msg_flags & MSG_CTRUNC) != 0;
  if ((message.msg_flags & MSG_TRUNC) != 0) {
    packet.fault = {Code::kProtocol, "a packet is longer than any that exists"};
  } else if (descriptors > 1) {
    packet.fault = {Code::kProtocol, "a packet carries more than one descriptor"};
  } else if (cut) {  // truncated although `ancillary` had room: this process is out of descriptors
    packet.fault = {
        Code::kResourceExhausted,
        "the daemon has no file descriptor left to take this one's: raise its LimitNOFILE, then join again"};
  }
  if (!packet.fault.ok()) packet.outcome = ReadOutcome::kBroken;
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
