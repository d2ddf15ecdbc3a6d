#include "proto/shell/query.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "proto/control.pb.h"
#include "proto/frame_codec.h"
#include "proto/local_abi.h"

namespace ringway::shell {
namespace {

constexpr std::size_t kStatusBytesMax = 64 << 20;

class Fd {
 public:
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd(const Fd&) = delete;
  ~Fd() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

// Makes both directions of a blocking socket give up in time.
void SetTimeout(int fd, std::chrono::milliseconds timeout) {
  const timeval value{.tv_sec = timeout.count() / 1000, .tv_usec = timeout.count() % 1000 * 1000};
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &value, sizeof value);
  ::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &value, sizeof value);
}

Status ReadFailure(const std::string& who, ssize_t n) {
  if (n == 0) return {Code::kProtocol, who + " closed the connection without an answer: is it a ringway process?"};
  if (errno == EAGAIN) return {Code::kTimeout, who + " did not answer in time: is it stopped or overloaded?"};
  return {Code::kIo, who + ": " + std::strerror(errno)};
}

Status DialFailure(const std::string& where, int error) {
  const auto failure = [&](const std::string& what) { return Status(Code::kMasterUnreachable, what); };
  switch (error) {
    case ECONNREFUSED:
      return failure("no master at " + where + " (" + std::strerror(error) +
                     "): start ringway-master there or correct --master");
    case EINPROGRESS:  // what a blocking connect says when its time is over
    case EAGAIN:
    case ETIMEDOUT:
      return failure(where +
                     " did not answer in time: look at the address in --master, and for a firewall that drops " +
                     "packets to it");
    default:
      return failure("cannot connect to " + where + " (" + std::strerror(error) +
                     "): look at the address in --master and at the network of this host");
  }
}

Result<Fd> Dial(const Endpoint& master, std::chrono::milliseconds timeout) {
  const std::string where = ToString(master);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = ::getaddrinfo(master.host.c_str(), std::to_string(master.port).c_str(), &hints, &found);
      error != 0) {
    return Status(Code::kMasterUnreachable, where + " cannot be resolved: " + ::gai_strerror(error));
  }
  Fd fd(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  SetTimeout(fd.get(), timeout);
  const bool connected = fd.get() >= 0 && ::connect(fd.get(), found->ai_addr, found->ai_addrlen) == 0;
  const int error = errno;
  ::freeaddrinfo(found);
  if (!connected) return DialFailure(where, error);
  return fd;
}

// What a reply says; nobody vouches for its code.
template <typename Reply>
Status StatusOf(const Reply& reply) {
  if (reply.code() == 0) return Status::Ok();
  return {CodeFromWire(reply.code()), reply.text()};
}

Status NoMasters(const Endpoint& master) {
  return {Code::kProtocol, ToString(master) +
                               " answers as no master does: is it the port of a daemon? --master wants "
                               "the one of ringway-master"};
}

std::string NameOfMaster(const Endpoint& master) { return "master at " + ToString(master); }

// One request, one answer, on a connection of its own.
Result<control::FromMaster> Ask(const Endpoint& master, const control::ToMaster& request,
                                std::chrono::milliseconds timeout) {
  Result<Fd> fd = Dial(master, timeout);
  if (!fd.ok()) return fd.status();
  std::string out;
  AppendFrame(request, out);
  const std::string who = NameOfMaster(master);
  if (::send(fd.value().get(), out.data(), out.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(out.size())) {
    return ReadFailure(who, -1);
  }
  FrameReader reader;
  std::array<std::byte, 16 * 1024> buffer;
  for (;;) {
    const ssize_t n = ::recv(fd.value().get(), buffer.data(), buffer.size(), 0);
    if (n <= 0) return ReadFailure(who, n);
    if (Status status = reader.Feed(std::span(buffer).first(static_cast<std::size_t>(n))); !status.ok()) return status;
    if (const auto frame = reader.Next()) {
      control::FromMaster reply;
      if (!ParseFrame(*frame, reply).ok()) return NoMasters(master);
      return reply;
    }
  }
}

}  // namespace

Result<std::string> QueryMaster(const Endpoint& master, std::chrono::milliseconds timeout) {
  control::ToMaster request;
  request.mutable_status();
  const Result<control::FromMaster> reply = Ask(master, request, timeout);
  if (!reply.ok()) return reply.status();
  if (!reply.value().has_status()) return NoMasters(master);
  return reply.value().status().json();
}

Status AskEviction(const Endpoint& master, const control::EvictRequest& request, std::chrono::milliseconds timeout) {
  control::ToMaster message;
  *message.mutable_evict() = request;
  const Result<control::FromMaster> reply = Ask(master, message, timeout);
  if (!reply.ok()) return reply.status();
  if (!reply.value().has_evict()) {
    return {Code::kProtocol, NameOfMaster(master) + " answered with something else: is it older?"};
  }
  return StatusOf(reply.value().evict());
}

Result<std::string> QueryPlan(const Endpoint& master, const control::PlanRequest& request,
                              std::chrono::milliseconds timeout) {
  control::ToMaster message;
  *message.mutable_plan() = request;
  const Result<control::FromMaster> reply = Ask(master, message, timeout);
  if (!reply.ok()) return reply.status();
  if (!reply.value().has_plan()) {
    return Status(Code::kProtocol, NameOfMaster(master) + " answered with something else than a plan: is it older?");
  }
  const control::PlanReply& plan = reply.value().plan();
  if (plan.code() == 0) return plan.json();
  return StatusOf(plan);
}

Result<std::string> QueryDaemon(const std::string& socket_path, std::chrono::milliseconds timeout) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (socket_path.size() >= sizeof address.sun_path) {
    return Status(Code::kInvalidArgument, "socket path is longer than the system allows");
  }
  std::memcpy(address.sun_path, socket_path.c_str(), socket_path.size());
  const Fd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  SetTimeout(fd.get(), timeout);
  if (fd.get() < 0 || ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    const int reason = errno;
    if (reason == EACCES || reason == EPERM) {
      return Status(Code::kIo, "no permission to connect to " + socket_path +
                                   ": look at the mode of the socket and of the directories above it");
    }
    return Status(Code::kDaemonUnreachable, "no daemon at " + socket_path + " (" + std::strerror(reason) +
                                                "): start ringwayd or correct --socket");
  }
  const std::string who = "daemon at " + socket_path;
  abi::Hello hello{};
  hello.header = {abi::kMagic, abi::PacketType::kHello};
  hello.version_min = hello.version_max = abi::kVersion;
  hello.pid = static_cast<std::uint32_t>(::getpid());
  const abi::Status status{{abi::kMagic, abi::PacketType::kStatus}};
  if (::send(fd.get(), &hello, sizeof hello, MSG_NOSIGNAL) < 0 ||
      ::send(fd.get(), &status, sizeof status, MSG_NOSIGNAL) < 0) {
    return ReadFailure(who, -1);
  }
  std::string text;
  std::array<char, abi::kPacketBytesMax> packet;
  for (;;) {
    const ssize_t n = ::recv(fd.get(), packet.data(), packet.size(), 0);
    if (n < static_cast<ssize_t>(sizeof(abi::PacketHeader))) return ReadFailure(who, n);
    abi::PacketHeader header;
    std::memcpy(&header, packet.data(), sizeof header);
    if (header.magic != abi::kMagic) return Status(Code::kProtocol, who + " speaks another protocol");
    if (header.type == abi::PacketType::kHelloReply && n >= static_cast<ssize_t>(sizeof(abi::HelloReply))) {
      abi::HelloReply reply;
      std::memcpy(&reply, packet.data(), sizeof reply);
      reply.text[abi::kTextBytes - 1] = '\0';
      if (reply.code != Code::kOk) return Status(reply.code, reply.text);
    } else if (header.type == abi::PacketType::kStatusReply && n >= static_cast<ssize_t>(sizeof(abi::StatusReply))) {
      abi::StatusReply reply;
      std::memcpy(&reply, packet.data(), sizeof reply);
      text.append(packet.data() + sizeof reply, static_cast<std::size_t>(n) - sizeof reply);
      if (reply.remaining_bytes == 0) return text;
      if (text.size() > kStatusBytesMax) return Status(Code::kProtocol, who + " sends a status without end");
    } else {
      return Status(Code::kProtocol, who + " answered with something else than a status");
    }
  }
}

}  // namespace ringway::shell
