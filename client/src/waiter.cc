#include "client/src/waiter.h"

namespace ringway::internal {
namespace {

// Polls `interrupted`, if that is due, without the lock. Returns true to end the call.
bool PollInterrupted(Lock* lock, const Deadline& deadline) {
  if (!deadline.AskIsDue()) return false;
  lock->unlock();
  const bool interrupted = deadline.Interrupted();
  lock->lock();
  return interrupted;
}

}  // namespace

Waited Waiter::Await(Lock* lock, Link* link, const Deadline& deadline, const std::function<bool()>& done) {
  while (!done()) {
    const bool leads = link != nullptr && link->end.ok() && !link->reading;
    const Waited waited = leads ? ReadForChange(lock, link, deadline) : WaitForChange(lock, deadline);
    if (waited != Waited::kChange && !done()) return waited;
  }
  return Waited::kChange;
}

Waited Waiter::WaitForChange(Lock* lock, const Deadline& deadline) {
  if (const auto next_look = deadline.NextLook()) {
    changed_.wait_until(*lock, *next_look);
  } else {
    changed_.wait(*lock);
  }
  return PollInterrupted(lock, deadline) ? Waited::kInterrupted
         : deadline.HasPassed()          ? Waited::kTimeout
                                         : Waited::kChange;
}

Waited Waiter::ReadForChange(Lock* lock, Link* link, const Deadline& deadline) {
  switch (Read(lock, link, deadline)) {
    case PacketSocket::Received::kTimeout:
      return Waited::kTimeout;
    case PacketSocket::Received::kInterrupted:
      return Waited::kInterrupted;
    default:
      return PollInterrupted(lock, deadline) ? Waited::kInterrupted : Waited::kChange;
  }
}

PacketSocket::Received Waiter::Read(Lock* lock, Link* link, const Deadline& deadline) {
  link->reading = true;
  lock->unlock();
  Packet packet;
  const auto received = link->socket.Receive(&packet, deadline);
  lock->lock();
  link->reading = false;
  handle_(*lock, link, received, packet);
  NotifyAll(*lock);
  return received;
}

void Waiter::WakeAll(const Lock& lock, const Link& link) {
  NotifyAll(lock);
  if (link.reading) link.socket.Wake();
}

}  // namespace ringway::internal
