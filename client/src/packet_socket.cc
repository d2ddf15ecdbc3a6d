#include "client/src/packet_socket.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "client/src/fork_guard.h"

namespace ringway::internal {
namespace {

Status ConnectError(const std::string& path, int reason) {
  switch (reason) {
    case ENOENT:
    case ECONNREFUSED:
    case ENOTDIR:
    case EPROTOTYPE:
      return Status(Code::kDaemonUnreachable, "no daemon listens on " + path + " (" + std::strerror(reason) +
                                                  "); start ringwayd with --socket " + path +
                                                  ", or give the path that it listens on");
    case EACCES:
    case EPERM:
      return Status(Code::kIo, "no permission to connect to " + path +
                                   "; run as a user or group that may write to the daemon's socket");
    case EAGAIN:
      return Status(Code::kTimeout,
                    "the daemon on " + path + " accepts no connection; see whether ringwayd is stopped");
    default:
      return Status(Code::kIo, "connecting to " + path + " failed: " + std::strerror(reason));
  }
}

Status DaemonLost(const char* how) {
  return Status(Code::kDaemonLost,
                std::string("the daemon ") + how + "; the buffers are intact: start ringwayd again and join anew");
}

// A connect to a full backlog waits for the socket's send timeout, where zero means forever.
void LimitConnect(int fd, const Deadline& deadline) {
  if (deadline.never()) return;
  const int milliseconds = std::max(deadline.PollMilliseconds(), 1);
  timeval limit{};
  limit.tv_sec = milliseconds / 1000;
  limit.tv_usec = static_cast<suseconds_t>(milliseconds % 1000) * 1000;
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
}

}  // namespace

PacketSocket::PacketSocket(PacketSocket&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), wake_(std::exchange(other.wake_, -1)), generation_(other.generation_) {}

PacketSocket& PacketSocket::operator=(PacketSocket&& other) noexcept {
  if (this == &other) return *this;
  Close();
  fd_ = std::exchange(other.fd_, -1);
  wake_ = std::exchange(other.wake_, -1);
  generation_ = other.generation_;
  return *this;
}

PacketSocket::~PacketSocket() { Close(); }

void PacketSocket::Close() {
  if (generation_ != ForkGeneration()) return;
  if (wake_ >= 0) CloseGuardedDescriptor(std::exchange(wake_, -1));
  if (fd_ < 0) return;
  // Closing with unread packets would reset the connection, and the daemon would miss what was sent last.
  Packet unread;
  const Deadline now{Milliseconds(0)};
  while (Receive(&unread, now) == Received::kPacket) continue;
  CloseGuardedDescriptor(std::exchange(fd_, -1));
}

Result<PacketSocket> PacketSocket::Connect(const std::string& path, const Deadline& deadline) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path)) {
    return Status(Code::kInvalidArgument,
                  "socket_path must have 1 to " + std::to_string(sizeof(address.sun_path) - 1) + " bytes");
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  PacketSocket result;
  result.generation_ = ForkGeneration();
  result.fd_ = OpenGuarded([] { return socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0); });
  if (result.fd_ >= 0) result.wake_ = OpenGuarded([] { return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK); });
  if (result.fd_ < 0 || result.wake_ < 0) {
    return Status(Code::kResourceExhausted, std::string("no socket: ") + std::strerror(errno) + "; raise ulimit -n");
  }
  LimitConnect(result.fd_, deadline);
  while (connect(result.fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    if (errno != EINTR) return ConnectError(path, errno);
    if (deadline.Interrupted()) return Status(Code::kInterrupted, "interrupted while connecting to " + path);
    if (deadline.HasPassed()) return ConnectError(path, EAGAIN);
  }
  return result;
}

Status PacketSocket::SendBytes(const void* bytes, std::size_t size_bytes, int descriptor, const Deadline& deadline) {
  iovec part{const_cast<void*>(bytes), size_bytes};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (descriptor >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &descriptor, sizeof(int));
  }
  for (;;) {
    if (sendmsg(fd_, &message, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0) return {};
    if (errno == EINTR) continue;
    // ETOOMANYREFS: too many of this user's descriptors are in flight in sockets.
    if (errno == ETOOMANYREFS)
      return Status(Code::kResourceExhausted, "too many descriptors in flight; raise ulimit -n");
    if (errno != EAGAIN) return DaemonLost("closed the session");
    if (Status error = AwaitRoom(deadline); !error.ok()) return error;
  }
}

Status PacketSocket::AwaitRoom(const Deadline& deadline) const {
  for (;;) {
    pollfd room{fd_, POLLOUT, 0};
    if (poll(&room, 1, Deadline::PollUntil(deadline.NextLook())) > 0) return {};
    if (deadline.Interrupted())
      return Status(Code::kInterrupted, "interrupted while the daemon does not read its socket");
    if (deadline.HasPassed())
      return Status(Code::kTimeout, "the daemon does not read its socket; see whether ringwayd is stopped");
  }
}

PacketSocket::Received PacketSocket::Receive(Packet* packet, const Deadline& deadline) {
  bool was_reset = false;
  for (;;) {
    if (!was_reset) {
      pollfd inputs[2] = {{fd_, POLLIN, 0}, {wake_, POLLIN, 0}};  // a negative descriptor is ignored
      const int ready = poll(inputs, 2, Deadline::PollUntil(deadline.NextLook()));
      if (ready == 0 || (ready < 0 && errno == EINTR)) {
        if (deadline.Interrupted()) return Received::kInterrupted;
        if (ready == 0 && deadline.HasPassed()) return Received::kTimeout;
        continue;
      }
      if (inputs[1].revents != 0) {
        eventfd_t count = 0;
        (void)eventfd_read(wake_, &count);
        return Received::kWoken;
      }
    }
    const ssize_t size = recv(fd_, packet->bytes, sizeof(packet->bytes), MSG_DONTWAIT | MSG_TRUNC);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && errno == EAGAIN && !was_reset) continue;
    // A reset is reported before the packets that preceded it, which may include the reason for the end.
    if (size < 0 && errno == ECONNRESET && !was_reset) {
      was_reset = true;
      continue;
    }
    if (size <= 0) return Received::kClosed;
    packet->size_bytes = static_cast<std::size_t>(size);
    if (packet->size_bytes < sizeof(abi::PacketHeader) || packet->size_bytes > sizeof(packet->bytes)) {
      return Received::kMalformed;
    }
    abi::PacketHeader header;
    std::memcpy(&header, packet->bytes, sizeof(header));
    return header.magic == abi::kMagic ? Received::kPacket : Received::kMalformed;
  }
}

void PacketSocket::Wake() const {
  if (wake_ >= 0 && generation_ == ForkGeneration()) (void)eventfd_write(wake_, 1);
}

void PacketSocket::Shutdown() {
  if (fd_ >= 0 && generation_ == ForkGeneration()) shutdown(fd_, SHUT_RDWR);
}

}  // namespace ringway::internal
