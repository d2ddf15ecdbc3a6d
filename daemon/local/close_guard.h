// Bounds how long this thread may be blocked in the kernel by the last close of a file that a stranger has sent.
//
// The sender of a descriptor decides how long closing it takes: a socket with SO_LINGER and data that its peer does not
// read blocks for hours. The last close is ours where we close it, where the kernel drops descriptors for which a
// packet's reader had no room, and where a connection is closed with unread ones.
//
// While a CloseGuard lives, a timer sends this thread a signal each kPatience, which ends such a wait; nothing else is
// interrupted that does not try again. Waits that no signal ends: ForeignFiles. Threads: any, each for itself; guards
// within guards end with the outermost. Costs two system calls.
#pragma once

#include <chrono>

namespace ringway::local {

class CloseGuard {
 public:
  static constexpr auto kPatience = std::chrono::milliseconds(1);

  CloseGuard();
  ~CloseGuard();
  CloseGuard(const CloseGuard&) = delete;
  CloseGuard& operator=(const CloseGuard&) = delete;
};

}  // namespace ringway::local
