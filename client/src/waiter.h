// The session's one mutex, and waiting under it: leader/follower.
//
// One of the waiting threads (the leader) reads the socket, without the lock; the others wait on the condition
// variable. A leader whose wait is over notifies all, and another one reads on.
//
// A function that takes a Lock runs under the mutex; one that takes a pointer to it may release it meanwhile.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <utility>

#include "client/src/link.h"

namespace ringway::internal {

using Lock = std::unique_lock<std::mutex>;

enum class Waited { kChange, kTimeout, kInterrupted };

class Waiter {
 public:
  // Handles what a leader has received on a link.
  using Handler = std::function<void(const Lock&, Link*, PacketSocket::Received, const Packet&)>;

  explicit Waiter(Handler handle) : handle_(std::move(handle)) {}

  Lock Acquire() { return Lock(mutex_); }

  // Blocks until `done()` (kChange), which is called under the lock, the deadline or an interruption. `link`: read it
  // while nobody else does; null: others read.
  Waited Await(Lock* lock, Link* link, const Deadline& deadline, const std::function<bool()>& done);
  // kChange: check again.
  Waited WaitForChange(Lock* lock, const Deadline& deadline);
  // Receives one packet and hands it to the handler. REQUIRES: nobody else reads the link.
  PacketSocket::Received Read(Lock* lock, Link* link, const Deadline& deadline);

  // Wakes the waiting threads, but not the leader, whom the end of its socket wakes.
  void NotifyAll(const Lock& /*lock*/) { changed_.notify_all(); }
  // The same for changes that no packet announces: also wakes the leader of this link.
  void WakeAll(const Lock& lock, const Link& link);

 private:
  Waited ReadForChange(Lock* lock, Link* link, const Deadline& deadline);

  std::mutex mutex_;
  std::condition_variable changed_;
  const Handler handle_;
};

}  // namespace ringway::internal
