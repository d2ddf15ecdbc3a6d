// The part of a session that waits: for the daemon's packets, the end of a membership and the next one.
#include <algorithm>
#include <string>
#include <thread>
#include <utility>

#include "client/src/session.h"

namespace ringway::internal {
namespace {

constexpr int kMemberLooks = 1000;  // a millisecond apart

// Returns the calling thread's number, unique in the process and never reused.
std::uint64_t ThisThread() {
  static std::atomic<std::uint64_t> next = 0;
  thread_local const std::uint64_t number = next++;
  return number;
}

}  // namespace

Error ForkedError() {
  return Error(Code::kForked, "this session belongs to the parent process; join in the child to get one of its own");
}

Error LeftError() { return Error(Code::kLeft, "the session has left its group; join again to go on"); }

Error SessionImpl::StateError() {
  if (Forked()) return ForkedError();
  const Lock lock(mutex_);
  if (!end_.ok()) return end_;
  return leaving_ ? LeftError() : Error();
}

Expected<std::shared_ptr<Link>> SessionImpl::Enter(std::uint32_t channel, const Deadline& deadline) {
  if (Forked()) return ForkedError();
  Lock lock(mutex_);
  while (rejoining_) {
    const Waited waited = WaitForChange(&lock, deadline);
    if (waited == Waited::kChange || !rejoining_) continue;
    return Error(waited == Waited::kTimeout ? Code::kTimeout : Code::kInterrupted,
                 "the session is joining again; call again; before: " + lost_.text());
  }
  const bool tells = untold_[channel] && !told_.contains(ThisThread());
  untold_.reset(channel);
  if (!end_.ok() || tells) return TellLoss(lock);
  if (leaving_) return LeftError();
  return link_;
}

Error SessionImpl::TellLoss(const Lock& lock) { return Tell(lock, LossOf(lock)); }

Error SessionImpl::Tell(const Lock& /*lock*/, const Error& error) {
  if (error.code() == Code::kRejoined) told_.insert(ThisThread());
  return error;
}

Error SessionImpl::LossOf(const Lock& /*lock*/) const {
  if (!end_.ok()) return end_;
  return Error(Code::kRejoined,
               "this peer has joined again as a new peer: take the others' state, as a newcomer does, "
               "then submit again; it had to because " +
                   lost_.text().substr(0, lost_.text().find(';')));  // advice for others follows
}

Expected<abi::MemberList> SessionImpl::ReadMembers(Link& link) {
  abi::MemberList list;
  bool is_whole = abi::ReadMembers(link.members(), &list);
  // The daemon may be preempted in the middle of a write.
  for (int i = 0; i < kMemberLooks && !is_whole; ++i) {
    std::this_thread::sleep_for(Milliseconds(1));
    is_whole = abi::ReadMembers(link.members(), &list);
  }
  list.world_size = std::min(list.world_size, abi::kWorldSizeMax);
  if (is_whole) return list;
  return Error(Code::kDaemonLost,
               "the daemon ended while it named the members; wait for an operation, which says more");
}

Expected<std::vector<Member>> SessionImpl::Members() {
  if (Forked()) return ForkedError();
  std::shared_ptr<Link> link;
  {
    const Lock lock(mutex_);
    link = link_;
  }
  const auto list = ReadMembers(*link);
  if (!list.ok()) return list.error();
  std::vector<Member> members;
  for (std::uint32_t rank = 0; rank < list->world_size; ++rank) {
    const abi::MemberEntry& entry = list->members[rank];
    members.push_back({entry.peer_id, TextOf(entry.name), TextOf(entry.site)});
  }
  return members;
}

SessionImpl::Waited SessionImpl::WaitForChange(Lock* lock, const Deadline& deadline) {
  const auto next_look = deadline.NextLook();
  if (next_look) {
    changed_.wait_until(*lock, *next_look);
  } else {
    changed_.wait(*lock);
  }
  return AskedMeanwhile(lock, deadline) ? Waited::kInterrupted
         : deadline.HasPassed()         ? Waited::kTimeout
                                        : Waited::kChange;
}

SessionImpl::Waited SessionImpl::ReadForChange(Lock* lock, Link* link, const Deadline& deadline) {
  switch (ReadOnce(lock, link, deadline)) {
    case PacketSocket::Received::kTimeout:
      return Waited::kTimeout;
    case PacketSocket::Received::kInterrupted:
      return Waited::kInterrupted;
    default:
      return AskedMeanwhile(lock, deadline) ? Waited::kInterrupted : Waited::kChange;
  }
}

bool SessionImpl::AskedMeanwhile(Lock* lock, const Deadline& deadline) {
  if (!deadline.AskIsDue()) return false;
  lock->unlock();
  const bool interrupted = deadline.Interrupted();
  lock->lock();
  return interrupted;
}

Error SessionImpl::Await(Lock* lock, Link* link, const Deadline& deadline, const std::function<bool()>& ready) {
  for (;;) {
    if (ready()) return {};
    if (!IsOpen(*link)) return TellLoss(*lock);
    const bool leads = link->end.ok() && !link->reading;
    const Waited waited = leads ? ReadForChange(lock, link, deadline) : WaitForChange(lock, deadline);
    if (waited == Waited::kChange || ready() || !IsOpen(*link)) continue;
    if (waited == Waited::kInterrupted) {
      return Error(Code::kInterrupted, "this call was interrupted; the operation goes on: wait again or cancel it");
    }
    return Error(Code::kTimeout, "the timeout of this call passed; the operation goes on: wait again or cancel it");
  }
}

PacketSocket::Received SessionImpl::ReadOnce(Lock* lock, Link* link, const Deadline& deadline) {
  link->reading = true;
  lock->unlock();
  Packet packet;
  const auto received = link->socket.Receive(&packet, deadline);
  lock->lock();
  link->reading = false;
  Handle(*lock, link, received, packet);
  changed_.notify_all();
  return received;
}

void SessionImpl::Handle(const Lock& lock, Link* link, PacketSocket::Received received, const Packet& packet) {
  abi::Ended ended;
  switch (received) {
    case PacketSocket::Received::kWoken:
    case PacketSocket::Received::kTimeout:
    case PacketSocket::Received::kInterrupted:
      return;
    case PacketSocket::Received::kClosed:
      if (left_) return End(lock, link, LeftError());
      return End(lock, link,
                 Error(Code::kDaemonLost,
                       "the daemon closed the session or died; the buffers are intact: start ringwayd again and "
                       "join anew"));
    case PacketSocket::Received::kMalformed:
      return End(lock, link,
                 Error(Code::kProtocol, "the daemon sent a malformed packet; install the same version of both"));
    case PacketSocket::Received::kPacket:
      break;
  }
  // A doorbell only means "check the slots", which every waiting thread does after each packet.
  if (packet.type() == abi::PacketType::kDoorbell) return;
  if (packet.type() == abi::PacketType::kLeaveReply) {
    left_ = true;
  } else if (packet.Read(abi::PacketType::kEnded, &ended)) {
    End(lock, link, Error(CheckedCode(ended.code), TextOf(ended.text)));
  } else {
    End(lock, link, Error(Code::kProtocol, "the daemon sent an unexpected packet; install the same version of both"));
  }
}

bool SessionImpl::MayRejoinAfter(Code code) const {
  const bool is_away = code == Code::kDaemonLost || code == Code::kShuttingDown;
  const bool is_out = code == Code::kEvicted && options_.rejoin_when_evicted;
  return (is_away || is_out) && options_.reconnect > Milliseconds(0);
}

void SessionImpl::End(const Lock& lock, Link* link, const Error& why) {
  if (!link->end.ok()) return;
  link->end = why;
  link->socket.Shutdown();  // wakes the leader
  changed_.notify_all();
  if (MayRejoinAfter(why.code()) && !leaving_) {
    const auto done = [this](Expected<std::shared_ptr<Link>> found) { Rejoined(std::move(found)); };
    lost_ = why;
    // A daemon that still runs and has announced no end may still write into result regions.
    const bool announced = why.code() == Code::kEvicted || why.code() == Code::kShuttingDown;
    const std::uint64_t gone = announced ? 0 : link->membership().daemon_instance;
    const Error started = rejoiner_.Start(options_, gone, done);
    rejoining_ = started.ok();
    end_ = started;
  } else {
    end_ = why;
  }
  if (!rejoining_) UnshareUnfinished(lock, *link);
}

// Waits end now and the trainer reuses its Buffers, whose old contents a daemon that is still alive goes on adding up.
void SessionImpl::UnshareUnfinished(const Lock& /*lock*/, const Link& link) {
  for (std::uint32_t index = 0; index < abi::kSlotCount; ++index) (void)Unshare(link, index);
}

void SessionImpl::Lose(Link* link, const Error& error) {
  Lock lock(mutex_);
  // The daemon may have sent its reason before it closed.
  const Deadline soon(std::chrono::seconds(1));
  (void)Await(&lock, link, soon, [link] { return !link->end.ok(); });
  End(lock, link, error.code() == Code::kTimeout ? Error(Code::kDaemonLost, error.text()) : error);
}

Error SessionImpl::SendFailed(Link* link, const Error& error, const Deadline& deadline) {
  if (error.code() == Code::kResourceExhausted) return error;
  Lose(link, error);
  Lock lock(mutex_);
  Error told = Await(&lock, link, deadline, [] { return false; });
  if (told.code() != Code::kTimeout && told.code() != Code::kInterrupted) return told;
  return Error(told.code(), "the session is joining again, and nothing was submitted: call again");
}

void SessionImpl::Install(const Lock& /*lock*/, std::shared_ptr<Link> link) {
  link->serial = link_ ? link_->serial + 1 : 1;
  const Membership& membership = link->membership();
  peer_id_ = membership.peer_id;
  rank_ = membership.rank;
  world_size_ = membership.world_size;
  epoch_ = membership.epoch;
  members_.clear();
  // It may name a later view already.
  abi::MemberList list;
  if (abi::ReadMembers(link->members(), &list) && list.epoch >= epoch_ && list.world_size > 0) {
    for (std::uint32_t rank = 0; rank < std::min(list.world_size, abi::kWorldSizeMax); ++rank) {
      members_.push_back(list.members[rank].peer_id);
      if (members_.back() == peer_id_) rank_ = rank;
    }
    world_size_ = static_cast<std::uint32_t>(members_.size());
    epoch_ = list.epoch;
  }
  pool_.SetBytesMax(membership.region_bytes_max);
  link_ = std::move(link);
}

void SessionImpl::Rejoined(Expected<std::shared_ptr<Link>> found) {
  const Lock lock(mutex_);
  if (!rejoining_) return;  // the session has left
  rejoining_ = false;
  changed_.notify_all();
  if (!found.ok()) {
    end_ = found.error();
    UnshareUnfinished(lock, *link_);
    return;
  }
  const std::shared_ptr<Link> before = link_;
  Install(lock, std::move(found.value()));
  ReclaimDetached(lock, before.get());
  untold_.set();
  told_.clear();
}

}  // namespace ringway::internal
