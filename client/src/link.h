// One membership of a session: the connection to the daemon that holds it, and the page shared with that daemon, with
// its slots.
//
//   Connect -> Join -> alive -> ended(why), for good
//
// Lifetime: held by the session while it is the current one, and by every operation submitted on it: the page keeps
// what the daemon committed, even when the daemon is gone.
//
// Threads: Connect and Join belong to one thread; another may end a Join with `socket.Shutdown()`. Afterwards the
// session's mutex guards everything but the socket (see packet_socket.h) and the page (see local_abi.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <ringway/ringway.hpp>
#include <string>
#include <vector>

#include "client/src/deadline.h"
#include "client/src/handshake.h"
#include "client/src/packet_socket.h"
#include "client/src/shared_memory.h"
#include "client/src/slots.h"
#include "proto/local_abi.h"

namespace ringway::internal {

// Upper bound for sending a packet to a daemon that does not read its socket.
inline constexpr Milliseconds kSendPatience = std::chrono::seconds(30);

class Link {
 public:
  // A connection and a fresh page; sends nothing. kDaemonUnreachable if nobody listens on `socket_path`.
  static Result<std::shared_ptr<Link>> Connect(const std::string& socket_path, const Deadline& deadline);
  // Sends Hello, joins, and returns when this peer is a member; `gone`, `on_held` and errors as in Shake.
  Status Join(const JoinOptions& options, std::uint64_t gone, const OnHeld& on_held, const Deadline& deadline);

  // Announces how much of an input is staged. Only the last announcement must arrive.
  Status SendProgress(std::uint32_t slot, bool is_last);

  // Newcomers that take the state of this member, the newest ones.
  std::vector<std::uint64_t> Newcomers() const;

  const abi::MemberTable& members() const { return reinterpret_cast<abi::SessionPage*>(page_.data())->members; }
  // Reads the members, once the daemon has written them whole. kDaemonLost if it died meanwhile.
  Result<abi::MemberList> ReadMembers() const;
  const Membership& membership() const { return membership_; }

  PacketSocket socket;
  Slots slots;
  std::uint64_t serial = 0;  // number of this membership in its session, from 1; set by the session
  bool reading = false;      // a leader reads the socket
  Status end;                // not ok once the membership has ended

 private:
  SharedMemory page_;
  Membership membership_;
};

}  // namespace ringway::internal
