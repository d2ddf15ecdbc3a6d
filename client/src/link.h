// One membership of a session: the connection to the daemon that holds it, the page shared with that daemon, and who
// owns the page's slots.
//
//   Connect -> Join -> alive -> ended(why), for good
//
// Lifetime: held by the session while it is the current one, and by every operation submitted on it: the page keeps
// what the daemon committed, even when the daemon is gone.
//
// Threads: Connect and Join belong to one thread; another may end a Join with `socket.Shutdown()`. Afterwards the
// session's mutex guards everything but the socket (see packet_socket.h) and the page (see local_abi.h).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <ringway/ringway.hpp>
#include <string>

#include "client/src/deadline.h"
#include "client/src/device_part.h"
#include "client/src/handshake.h"
#include "client/src/packet_socket.h"
#include "client/src/region_pool.h"
#include "client/src/shared_memory.h"
#include "proto/local_abi.h"

namespace ringway::internal {

enum class SlotUse { kIdle, kBusy, kDetached };

struct SlotOwner {
  SlotUse use = SlotUse::kIdle;
  Region* input = nullptr;
  Region* result = nullptr;
  std::shared_ptr<DevicePart> device;
};

class Link {
 public:
  // A connection and a fresh page; sends nothing. kDaemonUnreachable if nobody listens on `socket_path`.
  static Expected<std::shared_ptr<Link>> Connect(const std::string& socket_path, const Deadline& deadline);
  // Sends Hello, joins, and returns when this peer is a member; `gone` and errors as in Shake.
  Error Join(const JoinOptions& options, std::uint64_t gone, const Deadline& deadline);

  abi::Slot& slot(std::uint32_t index) const { return reinterpret_cast<abi::SessionPage*>(page_.data())->slots[index]; }
  bool IsDone(std::uint32_t index) const {
    return slot(index).state.load(std::memory_order_acquire) == abi::SlotState::kDone;
  }
  const abi::MemberTable& members() const { return reinterpret_cast<abi::SessionPage*>(page_.data())->members; }
  const Membership& membership() const { return membership_; }

  PacketSocket socket;
  std::uint64_t serial = 0;  // number of this membership in its session, from 1; set by the session
  std::array<SlotOwner, abi::kSlotCount> owners;
  std::uint32_t next_slot = 0;
  std::array<std::uint64_t, abi::kChannelCountMax> refusals_told{};  // by channel: of submissions that took no number
  bool reading = false;                                              // a leader reads the socket
  Error end;                                                         // not ok once the membership has ended

 private:
  SharedMemory page_;
  Membership membership_;
};

}  // namespace ringway::internal
