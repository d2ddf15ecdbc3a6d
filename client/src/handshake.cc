#include "client/src/handshake.h"

#include <unistd.h>

#include <algorithm>
#include <string>

namespace ringway::internal {
namespace {

Status UnexpectedPacket() {
  return Status(Code::kProtocol,
                "the daemon sent a packet that this library does not know; install the same version of both");
}

// The error of a receive that brought no packet. `waiting` is the last reason for the wait.
Status NoPacket(PacketSocket::Received received, const Status& last) {
  const std::string& waiting = last.text();
  switch (received) {
    case PacketSocket::Received::kTimeout:
      return Status(last.ok() ? Code::kTimeout : last.code(),
                    "the join took longer than its timeout; last: " + waiting);
    case PacketSocket::Received::kInterrupted:
      return Status(Code::kInterrupted, "the join was interrupted; call it again; last: " + waiting);
    case PacketSocket::Received::kClosed:
      return Status(Code::kDaemonLost,
                    "the daemon closed the connection during the join; see its log; last: " + waiting);
    default:
      return UnexpectedPacket();
  }
}

Status EndedError(const Packet& packet) {
  abi::Ended ended;
  if (!packet.Read(abi::PacketType::kEnded, &ended)) return UnexpectedPacket();
  return Status(CheckedCode(ended.code), TextOf(ended.text));
}

// A running daemon answers at once.
constexpr Milliseconds kHelloPatience = std::chrono::seconds(1);

struct Greeting {
  std::uint32_t version;  // of abi::kVersions
  std::uint64_t daemon_instance;
};
Result<Greeting> SayHello(PacketSocket* socket, const SharedMemory& page, const JoinOptions& options,
                          const Deadline& deadline) {
  auto hello = MakePacket<abi::Hello>(abi::PacketType::kHello);
  hello.version_min = abi::kVersions.oldest;
  hello.version_max = abi::kVersions.newest;
  hello.pid = static_cast<std::uint32_t>(getpid());
  // A daemon that refuses may close before it reads; its reply says more than the failed send.
  Status sent = socket->Send(hello, deadline, page.descriptor());
  if (!sent.ok() && sent.code() != Code::kDaemonLost) return sent;
  Packet packet;
  auto received = socket->Receive(&packet, deadline.Within(kHelloPatience));
  if (received == PacketSocket::Received::kTimeout) {
    const Status silent(Code::kDaemonUnreachable,
                        "the daemon at " + options.socket_path + " does not answer: is it stopped or overloaded?");
    if (options.on_waiting) options.on_waiting(silent);
    received = socket->Receive(&packet, deadline);
    if (received == PacketSocket::Received::kTimeout) return NoPacket(received, silent);
  }
  if (received != PacketSocket::Received::kPacket)
    return NoPacket(received, Status(Code::kOk, "no answer to the hello"));
  abi::HelloReply reply;
  if (!packet.Read(abi::PacketType::kHelloReply, &reply)) return EndedError(packet);
  if (reply.code != Code::kOk) return Status(CheckedCode(reply.code), TextOf(reply.text));
  if (!abi::kVersions.Has(reply.version)) {
    return Status(Code::kVersionMismatch,
                  NoCommonVersion("this library", abi::kVersions, "the daemon", {reply.version, reply.version}));
  }
  return Greeting{reply.version, reply.daemon_instance};
}

constexpr Milliseconds kHungMin = std::chrono::seconds(1);  // reported with heartbeats

Status SendJoin(PacketSocket* socket, const JoinOptions& options, bool takes_state, const Deadline& deadline) {
  auto join = MakePacket<abi::Join>(abi::PacketType::kJoin);
  CopyText(join.group, options.group);
  CopyText(join.name, options.name);
  join.wait_world = options.wait_world;
  join.min_world = options.min_world;
  join.fail_on_peer_loss = options.fail_on_peer_loss ? 1 : 0;
  join.op_deadline_ms = static_cast<std::uint32_t>(options.op_deadline.count());
  join.hung_ms = static_cast<std::uint32_t>(options.evict_hung_after.count());
  join.takes_state = takes_state ? 1 : 0;
  Status sent = socket->Send(join, deadline);
  return sent.code() == Code::kDaemonLost ? Status() : sent;
}

}  // namespace

Code CheckedCode(Code code) {
  const bool known = code != Code::kOk && static_cast<std::uint32_t>(code) < kCodeCount;
  return known ? code : Code::kProtocol;
}

Status CheckJoinOptions(const JoinOptions& options) {
  const auto refuse = [](const std::string& text) { return Status(Code::kInvalidArgument, text); };
  const std::string world_range = " must be 1 to " + std::to_string(abi::kWorldSizeMax);
  if (options.group.empty() || options.group.size() >= abi::kGroupNameBytes) {
    return refuse("group must have 1 to " + std::to_string(abi::kGroupNameBytes - 1) + " bytes");
  }
  if (options.name.size() >= abi::kPeerNameBytes) {
    return refuse("name must have at most " + std::to_string(abi::kPeerNameBytes - 1) + " bytes");
  }
  if (options.group.find('\0') != std::string::npos || options.name.find('\0') != std::string::npos) {
    return refuse("group and name must not contain NUL");
  }
  if (options.wait_world < 1 || options.wait_world > abi::kWorldSizeMax) {
    return refuse("wait_world, how many peers a new group begins with," + world_range + " (1 begins alone)");
  }
  if (options.min_world < 1 || options.min_world > abi::kWorldSizeMax) return refuse("min_world" + world_range);
  if (options.op_deadline < Milliseconds(0) || options.op_deadline > kOpDeadlineMax) {
    return refuse("op_deadline must be 0 (none) or at most 24 days");
  }
  const bool evicts = options.evict_hung_after != Milliseconds(0);
  if (evicts && (options.evict_hung_after < kHungMin || options.evict_hung_after > kOpDeadlineMax)) {
    return refuse("evict_hung_after must be 0 (never), or 1 s to 24 days");
  }
  if (!options.quorum.is_valid())
    return refuse("the group's quorum must be 1 to 64 ranks, or 1 to 100 percent of them");
  const bool goes_on = options.quorum != Quorum::All();
  if (options.grace != Milliseconds(0) && !goes_on) return refuse("a grace of the group needs its quorum");
  if (options.grace < Milliseconds(0)) return refuse("the group's grace must not be negative");
  if (static_cast<std::uint8_t>(options.late) >= kLateCount)
    return refuse("the group's late is neither dropped nor next");
  if (options.late != Late::kDropped && !goes_on) return refuse("late = next of the group needs its quorum");
  if (options.reconnect < Milliseconds(0)) return refuse("reconnect must not be negative; 0 means not at all");
  return {};
}

Result<Membership> Shake(PacketSocket* socket, const SharedMemory& page, const JoinOptions& options, std::uint64_t gone,
                         const OnHeld& on_held, Deadline deadline) {
  const auto greeting = SayHello(socket, page, options, deadline);
  if (!greeting.ok()) return greeting.status();
  // It may still write results of the old membership into regions that are in use again.
  if (gone != 0 && greeting->daemon_instance == gone)
    return Status(Code::kDaemonUnreachable, "the daemon is the one that went away");
  if (Status error = SendJoin(socket, options, static_cast<bool>(on_held), deadline); !error.ok()) return error;
  Status waiting(Code::kOk, "the daemon gave no reason");
  for (;;) {
    Packet packet;
    const auto received = socket->Receive(&packet, deadline);
    if (received != PacketSocket::Received::kPacket) return NoPacket(received, waiting);
    abi::JoinProgress progress;
    if (packet.Read(abi::PacketType::kJoinProgress, &progress)) {
      waiting = Status(progress.code == Code::kOk ? Code::kOk : CheckedCode(progress.code), TextOf(progress.text));
      if (options.on_waiting) options.on_waiting(waiting);
      continue;
    }
    abi::StateHeld held;
    if (on_held && packet.Read(abi::PacketType::kStateHeld, &held)) {
      const std::uint32_t count = std::min(held.member_count, abi::kWorldSizeMax);
      on_held({.peer_id = held.peer_id, .members = {held.members, held.members + count}});
      deadline = Deadline(options.timeout, &options.interrupted);
      auto taken = MakePacket<abi::StateTaken>(abi::PacketType::kStateTaken);
      taken.peer_id = held.peer_id;
      const Status sent = socket->Send(taken, deadline);  // a daemon that is lost shows at the next receive
      if (!sent.ok() && sent.code() != Code::kDaemonLost) return sent;
      continue;
    }
    abi::JoinReply reply;
    if (!packet.Read(abi::PacketType::kJoinReply, &reply)) return EndedError(packet);
    if (reply.code != Code::kOk) return Status(CheckedCode(reply.code), TextOf(reply.text));
    return Membership{.version = greeting->version,
                      .daemon_instance = greeting->daemon_instance,
                      .peer_id = reply.peer_id,
                      .epoch = reply.epoch,
                      .rank = reply.rank,
                      .world_size = reply.world_size,
                      .region_bytes_max = std::size_t{reply.regions_mib_max} << 20};
  }
}

}  // namespace ringway::internal
