#include "proto/shell/query.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <asio/io_context.hpp>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "proto/control.pb.h"
#include "proto/fixed_text.h"
#include "proto/frame_codec.h"
#include "proto/local_abi.h"
#include "proto/stream/connector.h"
#include "proto/stream/stream.h"
#include "proto/stream/unique_fd.h"

namespace ringway::shell {
namespace {

constexpr std::size_t kStatusBytesMax = 64 << 20;

// Sets the timeouts of both directions of a blocking socket.
void SetTimeout(int fd, std::chrono::milliseconds timeout) {
  const timeval value{.tv_sec = timeout.count() / 1000, .tv_usec = timeout.count() % 1000 * 1000};
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &value, sizeof value);
  ::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &value, sizeof value);
}

std::string NameOfMaster(const Endpoint& master) { return "master at " + ToString(master); }

Status LateAnswer(const std::string& who) {
  return {Code::kTimeout, who + " did not answer in time: is it stopped or overloaded?"};
}

Status ReadFailure(const std::string& who, ssize_t n) {
  if (n == 0) return {Code::kProtocol, who + " closed the connection without an answer: is it a ringway process?"};
  if (errno == EAGAIN) return LateAnswer(who);
  return {Code::kIo, who + ": " + std::strerror(errno)};
}

Status DialFailure(const std::string& where, const Status& failure) {
  const auto unreachable = [](const std::string& what) { return Status(Code::kMasterUnreachable, what); };
  switch (failure.code()) {
    case Code::kPeerUnreachable:
      return unreachable("no master at " + where + " (nothing listens there): start ringway-master there or correct " +
                         "--master");
    case Code::kTimeout:
      return unreachable(where + " did not answer in time: look at the address in --master, and for a firewall that " +
                         "drops packets to it");
    default:
      return unreachable(failure.text() + ": look at the address in --master and at the network of this host");
  }
}

// Ends a wait for a stream.
struct Wait final : net::StreamSink {
  void OnReadable() override { over = true; }
  void OnWritable() override { over = true; }
  bool over = false;
};

// A connection to a master that is used step by step. Each may take `timeout`.
class Conversation {
 public:
  Conversation(const Endpoint& master, std::shared_ptr<net::Security> security, std::chrono::milliseconds timeout)
      : master_(master),
        security_(std::move(security)),
        where_(ToString(master)),
        who_(NameOfMaster(master)),
        timeout_(timeout) {}

  const Endpoint& master() const { return master_; }

  // The other end closed it, or it broke.
  bool cut_off() const { return cut_off_; }
  // A byte of the request may have been sent.
  bool has_asked() const { return has_asked_; }

  Status Dial() {
    Status failure;
    net::ConnectTcp(io_,
                    {.address = where_,
                     .timeout = timeout_,
                     .allow_remote = true,
                     .security = security_,
                     .whom = {.role = ProcessRole::kMaster, .name = {}},
                     .tuning = {}},
                    [&](Result<net::Connection> connected) {
                      if (!connected.ok()) return void(failure = connected.status());
                      stream_ = std::move(connected.value().stream);
                    });
    io_.run();
    return stream_ == nullptr ? DialFailure(where_, failure) : stream_->Attach(io_);
  }
  Status Write(std::span<const std::byte> bytes) {
    has_asked_ = true;
    while (!bytes.empty()) {
      const net::StreamIo io = stream_->Write(bytes);
      if (Status status = Check(io, &net::Stream::AwaitWrite); !status.ok()) return status;
      bytes = bytes.subspan(io.bytes);
    }
    return Status::Ok();
  }
  // At least one byte.
  Result<std::size_t> Read(std::span<std::byte> into) {
    for (;;) {
      const net::StreamIo io = stream_->Read(into);
      if (Status status = Check(io, &net::Stream::AwaitRead); !status.ok()) return status;
      if (io.bytes > 0) return io.bytes;
    }
  }

 private:
  Status Check(const net::StreamIo& io, void (net::Stream::*await)(std::shared_ptr<net::StreamSink>)) {
    switch (io.kind) {
      case net::StreamIo::Kind::kBytes:
        return Status::Ok();
      case net::StreamIo::Kind::kEnd:
        cut_off_ = true;
        if (security_ != nullptr) return ReadFailure(who_, 0);
        return {Code::kProtocol, who_ +
                                     " closed the connection without an answer: is it a ringway-master? If it has "
                                     "certificates, give --tls-dir"};
      case net::StreamIo::Kind::kError:
        cut_off_ = true;
        return {Code::kIo, who_ + ": " + io.why};
      case net::StreamIo::Kind::kWouldBlock:
        break;
    }
    const auto wait = std::make_shared<Wait>();
    ((*stream_).*await)(wait);
    io_.restart();
    io_.run_for(timeout_);
    return wait->over ? Status::Ok() : LateAnswer(who_);
  }

  const Endpoint master_;
  const std::shared_ptr<net::Security> security_;
  const std::string where_;
  const std::string who_;
  const std::chrono::milliseconds timeout_;
  asio::io_context io_{1};
  std::unique_ptr<net::Stream> stream_;
  bool cut_off_ = false;
  bool has_asked_ = false;
};

// The status in a reply; its code is not trusted.
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

// One request, one answer.
Result<control::FromMaster> Ask(Conversation& conversation, const control::ToMaster& request) {
  if (Status status = conversation.Dial(); !status.ok()) return status;
  std::string out;
  AppendFrame(request, out);
  if (Status status = conversation.Write(std::as_bytes(std::span(out))); !status.ok()) return status;
  FrameReader reader;
  std::array<std::byte, 16 * 1024> buffer;
  for (;;) {
    const Result<std::size_t> bytes = conversation.Read(buffer);
    if (!bytes.ok()) return bytes.status();
    if (Status status = reader.Feed(std::span(buffer).first(bytes.value())); !status.ok()) {
      return Status(status.code(), NameOfMaster(conversation.master()) + ": " + status.text());
    }
    if (const auto frame = reader.Next()) {
      control::FromMaster reply;
      if (!ParseFrame(*frame, reply).ok()) return NoMasters(conversation.master());
      return reply;
    }
  }
}

// A master under a flood of connections makes room by closing some: asks again, less and less often, until `timeout` is
// over. For requests that change nothing.
Result<control::FromMaster> AskUntilAnswered(const Endpoint& master, const std::shared_ptr<net::Security>& security,
                                             const control::ToMaster& request, std::chrono::milliseconds timeout) {
  constexpr std::chrono::milliseconds kPauseMin{100};
  constexpr std::chrono::milliseconds kPauseMax{1000};
  const auto end = std::chrono::steady_clock::now() + timeout;
  for (auto pause = kPauseMin;; pause = std::min(2 * pause, kPauseMax)) {
    Conversation conversation(master, security, timeout);
    Result<control::FromMaster> reply = Ask(conversation, request);
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    if (reply.ok() || !conversation.cut_off() || left <= pause) return reply;
    timeout = left - pause;
    std::this_thread::sleep_for(pause);
  }
}

// For an order. One that is sent and not answered may have been carried out: the answer is then that failure, so that
// nobody gives it again.
Result<control::FromMaster> AskOnce(const Endpoint& master, const std::shared_ptr<net::Security>& security,
                                    const control::ToMaster& request, std::chrono::milliseconds timeout) {
  Conversation conversation(master, security, timeout);
  Result<control::FromMaster> reply = Ask(conversation, request);
  if (reply.ok() || !conversation.has_asked()) return reply;
  control::FromMaster unknown;
  unknown.mutable_order()->set_code(static_cast<std::uint32_t>(reply.status().code()));
  unknown.mutable_order()->set_text(reply.status().text() +
                                    "; it is not known whether the order was carried out: see ringwayctl status");
  return unknown;
}

struct LeadersAnswer {
  Endpoint from;
  control::FromMaster message;
};

// The master that an answer names as the one that leads; empty if it does not matter, or the answer is the leader's.
std::string LeaderNamedIn(const control::FromMaster& answer) {
  return answer.has_refusal() ? answer.refusal().leader() : answer.status().leader();
}

// `ask` is AskOnce or AskUntilAnswered.
Result<LeadersAnswer> AskLeader(const MasterAddress& masters, const control::ToMaster& request,
                                std::chrono::milliseconds timeout, decltype(AskOnce)* ask) {
  std::vector<Endpoint> left = masters.endpoints;
  std::optional<LeadersAnswer> standby;
  Status failure(Code::kMasterUnreachable, "no master leads");
  while (!left.empty()) {
    const Endpoint one = left.front();
    left.erase(left.begin());
    Result<control::FromMaster> answer = ask(one, masters.security, request, timeout);
    if (!answer.ok()) {
      failure = answer.status();
      continue;
    }
    const control::FromMaster& message = answer.value();
    if (!message.has_refusal() && !message.status().stands_by()) return LeadersAnswer{one, message};
    if (message.has_refusal()) {
      failure = {FailureFromWire(message.refusal().code(), Code::kMasterUnreachable),
                 NameOfMaster(one) + ": " + message.refusal().text()};
    } else if (!standby) {
      standby = LeadersAnswer{one, message};
    }
    const std::string leader = LeaderNamedIn(message);
    const auto named =
        std::find_if(left.begin(), left.end(), [&](const auto& other) { return ToString(other) == leader; });
    if (named != left.end()) std::rotate(left.begin(), named, named + 1);
  }
  if (standby) return *standby;
  return failure;
}

}  // namespace

Result<std::string> QueryMaster(const MasterAddress& master, std::chrono::milliseconds timeout,
                                const control::StatusRequest& request) {
  control::ToMaster message;
  *message.mutable_status() = request;
  const Result<LeadersAnswer> reply = AskLeader(master, message, timeout, AskUntilAnswered);
  if (!reply.ok()) return reply.status();
  if (!reply.value().message.has_status()) return NoMasters(reply.value().from);
  return reply.value().message.status().json();
}

Status GiveOrder(const MasterAddress& master, const control::ToMaster& order, std::chrono::milliseconds timeout) {
  const Result<LeadersAnswer> reply = AskLeader(master, order, timeout, AskOnce);
  if (!reply.ok()) return reply.status();
  if (!reply.value().message.has_order()) {
    return {Code::kProtocol, NameOfMaster(reply.value().from) + " answered with something else: is it older?"};
  }
  return StatusOf(reply.value().message.order());
}

Result<std::string> QueryPlan(const MasterAddress& master, const control::PlanRequest& request,
                              std::chrono::milliseconds timeout) {
  control::ToMaster message;
  *message.mutable_plan() = request;
  const Result<LeadersAnswer> reply = AskLeader(master, message, timeout, AskUntilAnswered);
  if (!reply.ok()) return reply.status();
  if (!reply.value().message.has_plan()) {
    return Status(Code::kProtocol,
                  NameOfMaster(reply.value().from) + " answered with something else than a plan: is it older?");
  }
  const control::PlanReply& plan = reply.value().message.plan();
  if (plan.code() == 0) return plan.json();
  return StatusOf(plan);
}

Result<control::TraceReply> QueryTrace(const MasterAddress& master, const control::TraceRequest& request,
                                       std::chrono::milliseconds timeout) {
  control::ToMaster message;
  *message.mutable_trace() = request;
  const Result<LeadersAnswer> reply = AskLeader(master, message, timeout, AskUntilAnswered);
  if (!reply.ok()) return reply.status();
  if (!reply.value().message.has_trace_reply()) {
    return Status(Code::kProtocol,
                  NameOfMaster(reply.value().from) + " answered with something else than a trace: is it older?");
  }
  const control::TraceReply& trace = reply.value().message.trace_reply();
  if (trace.code() != 0) return StatusOf(trace);
  return trace;
}

namespace {

// Sends a status client's packet, returns the answer's text.
Result<std::string> AskDaemon(const std::string& socket_path, std::span<const std::byte> question,
                              std::chrono::milliseconds timeout) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (socket_path.size() >= sizeof address.sun_path) {
    return Status(Code::kInvalidArgument, "socket path is longer than the system allows");
  }
  std::memcpy(address.sun_path, socket_path.c_str(), socket_path.size());
  const net::UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
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
  hello.version_min = abi::kVersions.oldest;
  hello.version_max = abi::kVersions.newest;
  hello.pid = static_cast<std::uint32_t>(::getpid());
  if (::send(fd.get(), &hello, sizeof hello, MSG_NOSIGNAL) < 0 ||
      ::send(fd.get(), question.data(), question.size(), MSG_NOSIGNAL) < 0) {
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
    } else if (header.type == abi::PacketType::kEnded && n == static_cast<ssize_t>(sizeof(abi::Ended))) {
      abi::Ended ended;
      std::memcpy(&ended, packet.data(), sizeof ended);
      ended.text[abi::kTextBytes - 1] = '\0';
      return Status(FailureFromWire(static_cast<std::uint32_t>(ended.code), Code::kProtocol), who + ": " + ended.text);
    } else {
      return Status(Code::kProtocol, who + " answered with something else than what it was asked for");
    }
  }
}

}  // namespace

Result<std::string> QueryDaemon(const std::string& socket_path, std::chrono::milliseconds timeout) {
  const abi::Status status{{abi::kMagic, abi::PacketType::kStatus}};
  return AskDaemon(socket_path, std::as_bytes(std::span(&status, 1)), timeout);
}

Result<std::string> QueryTraceOfDaemon(const std::string& socket_path, const control::TraceRequest& request,
                                       std::chrono::milliseconds timeout) {
  abi::Trace trace{};
  trace.header = {abi::kMagic, abi::PacketType::kTrace};
  if (request.group().size() >= abi::kGroupNameBytes)
    return Status(Code::kInvalidArgument, "the group's name is longer than a group has one");
  SetText(trace.group, request.group());
  trace.last = request.last();
  return AskDaemon(socket_path, std::as_bytes(std::span(&trace, 1)), timeout);
}

}  // namespace ringway::shell
