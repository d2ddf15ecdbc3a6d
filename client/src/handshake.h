// The start of a session: Hello, Join, and the wait for membership.
#pragma once

#include <cstdint>
#include <functional>
#include <ringway/ringway.hpp>
#include <vector>

#include "client/src/deadline.h"
#include "client/src/packet_socket.h"
#include "client/src/shared_memory.h"

namespace ringway::internal {

inline constexpr Milliseconds kOpDeadlineMax{std::int64_t{1} << 31};  // about 24.8 days

struct Membership {
  std::uint32_t version = 0;  // of the local protocol, which the daemon speaks with this library
  std::uint64_t daemon_instance = 0;
  std::uint64_t peer_id = 0;
  std::uint64_t epoch = 0;
  std::uint32_t rank = 0;
  std::uint32_t world_size = 0;
  std::size_t region_bytes_max = 0;  // limit for all regions of this session; 0: none
};

// A newcomer that may take the members' state before it is admitted.
struct HeldMembership {
  std::uint64_t peer_id = 0;
  std::vector<std::uint64_t> members;  // peer ids
};
// Called on the thread of Join; when it returns, the newcomer may be admitted.
using OnHeld = std::function<void(const HeldMembership&)>;

// Checks that need no daemon.
Status CheckJoinOptions(const JoinOptions& options);

// Sends Hello with the session page and joins. Blocks until the daemon's JoinReply or `deadline`; a kTimeout carries
// the daemon's last reason for the wait. `gone`: a daemon instance not to join (kDaemonUnreachable); 0: none.
// `on_held`, unless it is empty: called before the admission, where the group has members; its time is not counted.
// REQUIRES: `page` holds an initialised abi::SessionPage.
Result<Membership> Shake(PacketSocket* socket, const SharedMemory& page, const JoinOptions& options, std::uint64_t gone,
                         const OnHeld& on_held, Deadline deadline);

// Returns a code from the daemon, or kProtocol if it is unknown.
Code CheckedCode(Code code);

}  // namespace ringway::internal
