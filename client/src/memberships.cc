#include "client/src/memberships.h"

#include <atomic>
#include <chrono>
#include <string>
#include <utility>

#include "client/src/fork_guard.h"

namespace ringway::internal {
namespace {

// Returns the calling thread's number, unique in the process and never reused.
std::uint64_t ThisThread() {
  static std::atomic<std::uint64_t> next = 0;
  thread_local const std::uint64_t number = next++;
  return number;
}

// on_waiting is not called while rejoining.
JoinOptions ForRejoining(JoinOptions options) {
  options.on_waiting = nullptr;
  return options;
}

Status LeftError() { return Status(Code::kLeft, "the session has left its group; join again to go on"); }

bool IsOver(const Status& error) { return error.code() == Code::kTimeout || error.code() == Code::kInterrupted; }

}  // namespace

Status ForkedError() {
  return Status(Code::kForked, "this session belongs to the parent process; join in the child to get one of its own");
}

bool RejoinReports::Take(std::uint32_t channel) {
  const bool reports = pending_[channel] && !threads_.contains(ThisThread());
  pending_.reset(channel);
  return reports;
}

void RejoinReports::Add() { threads_.insert(ThisThread()); }

Memberships::Memberships(const JoinOptions& options, std::shared_ptr<Link> first, Rejoiner::Done rejoined)
    : options_(ForRejoining(options)),
      generation_(ForkGeneration()),
      rejoined_(std::move(rejoined)),
      waiter_([this](const Lock& lock, Link* link, PacketSocket::Received received, const Packet& packet) {
        Handle(lock, link, received, packet);
      }),
      link_(std::move(first)) {
  link_->serial = 1;
}

bool Memberships::Forked() const { return generation_ != ForkGeneration(); }

bool Memberships::MayRejoinAfter(Code code) const {
  const bool is_away = code == Code::kDaemonLost || code == Code::kShuttingDown;
  const bool is_out = code == Code::kEvicted && options_.rejoin_when_evicted;
  return (is_away || is_out) && options_.reconnect > Milliseconds(0);
}

Status Memberships::StateError() {
  if (Forked()) return ForkedError();
  const Lock lock = Acquire();
  if (!end_.ok()) return end_;
  return leaving_ ? LeftError() : Status();
}

Result<std::shared_ptr<Link>> Memberships::Enter(std::uint32_t channel, const Deadline& deadline) {
  if (Forked()) return ForkedError();
  Lock lock = Acquire();
  const Waited waited = waiter_.Await(&lock, nullptr, deadline, [this] { return !rejoining_; });
  if (waited != Waited::kChange) {
    return Status(waited == Waited::kTimeout ? Code::kTimeout : Code::kInterrupted,
                  "the session is joining again; call again; before: " + lost_.text());
  }
  if (reports_.Take(channel) || !end_.ok()) return Report(lock, Loss(lock));
  if (leaving_) return LeftError();
  return link_;
}

Status Memberships::Loss(const Lock& /*lock*/) const {
  if (!end_.ok()) return end_;
  return Status(Code::kRejoined,
                "this peer has joined again as a new peer: take the others' state, as a newcomer does, "
                "then submit again; it had to because " +
                    lost_.text().substr(0, lost_.text().find(';')));  // advice for others follows
}

Status Memberships::Report(const Lock& /*lock*/, const Status& error) {
  if (error.code() == Code::kRejoined) reports_.Add();
  return error;
}

Status Memberships::Await(Lock* lock, Link* link, const Deadline& deadline, const std::function<bool()>& ready) {
  bool is_ready = false;
  const Waited waited =
      waiter_.Await(lock, link, deadline, [&] { return (is_ready = ready()) || !IsOpen(*lock, *link); });
  if (is_ready) return {};
  if (waited == Waited::kChange) return Report(*lock, Loss(*lock));
  if (waited == Waited::kInterrupted) {
    return Status(Code::kInterrupted, "this call was interrupted; the operation goes on: wait again or cancel it");
  }
  return Status(Code::kTimeout, "the timeout of this call passed; the operation goes on: wait again or cancel it");
}

void Memberships::Drain(Lock* lock, Link* link) {
  const Deadline now(Milliseconds(0));
  while (!link->reading && link->end.ok() && waiter_.Read(lock, link, now) == PacketSocket::Received::kPacket) continue;
}

void Memberships::Handle(const Lock& lock, Link* link, PacketSocket::Received received, const Packet& packet) {
  abi::Ended ended;
  switch (received) {
    case PacketSocket::Received::kWoken:
    case PacketSocket::Received::kTimeout:
    case PacketSocket::Received::kInterrupted:
      return;
    case PacketSocket::Received::kClosed:
      if (left_) return End(lock, link, LeftError());
      return End(lock, link,
                 Status(Code::kDaemonLost,
                        "the daemon closed the session or died; the buffers are intact: start ringwayd again and "
                        "join anew"));
    case PacketSocket::Received::kMalformed:
      return End(lock, link,
                 Status(Code::kProtocol, "the daemon sent a malformed packet; install the same version of both"));
    case PacketSocket::Received::kPacket:
      break;
  }
  // A doorbell only means "check the slots", which every waiting thread does after each packet.
  if (packet.type() == abi::PacketType::kDoorbell) return;
  if (packet.type() == abi::PacketType::kLeaveReply) {
    left_ = true;
  } else if (packet.Read(abi::PacketType::kEnded, &ended)) {
    End(lock, link, Status(CheckedCode(ended.code), TextOf(ended.text)));
  } else {
    End(lock, link, Status(Code::kProtocol, "the daemon sent an unexpected packet; install the same version of both"));
  }
}

void Memberships::End(const Lock& lock, Link* link, const Status& why) {
  if (!link->end.ok()) return;
  link->end = why;
  link->socket.Shutdown();  // wakes the leader
  waiter_.NotifyAll(lock);
  if (MayRejoinAfter(why.code()) && !leaving_) {
    lost_ = why;
    // A daemon that still runs and has announced no end may still write into result regions.
    const bool announced = why.code() == Code::kEvicted || why.code() == Code::kShuttingDown;
    end_ = rejoiner_.Start(options_, announced ? 0 : link->membership().daemon_instance, rejoined_);
    rejoining_ = end_.ok();
  } else {
    end_ = why;
  }
  // Waits end now and the trainer reuses its Buffers, whose old contents a daemon that still lives goes on reducing.
  if (!rejoining_) link->slots.UnshareAll();
}

void Memberships::Lose(Link* link, const Status& error) {
  Lock lock = Acquire();
  // The daemon may have sent its reason before it closed.
  const Deadline soon(std::chrono::seconds(1));
  (void)Await(&lock, link, soon, [link] { return !link->end.ok(); });
  End(lock, link, error.code() == Code::kTimeout ? Status(Code::kDaemonLost, error.text()) : error);
}

Status Memberships::SendFailed(Link* link, const Status& error, const Deadline& deadline) {
  if (error.code() == Code::kResourceExhausted) return error;
  Lose(link, error);
  Lock lock = Acquire();
  Status loss = Await(&lock, link, deadline, [] { return false; });
  if (!IsOver(loss)) return loss;
  return Status(loss.code(), "the session is joining again, and nothing was submitted: call again");
}

bool Memberships::EndRejoining(const Lock& lock, Result<std::shared_ptr<Link>> found) {
  if (!rejoining_) return false;  // the session has left
  rejoining_ = false;
  waiter_.NotifyAll(lock);
  if (!found.ok()) {
    end_ = found.status();
    link_->slots.UnshareAll();
    return false;
  }
  found.value()->serial = link_->serial + 1;
  link_ = std::move(found.value());
  reports_.Reset();
  return true;
}

Status Memberships::Leave(const Deadline& deadline) {
  bool first = false;
  std::shared_ptr<Link> link;
  {
    Lock lock = Acquire();
    if (rejoining_) {
      GiveUpRejoining(&lock);
      return {};
    }
    if (!end_.ok()) return end_;
    first = !std::exchange(leaving_, true);
    link = link_;
  }
  if (first) {
    Status sent = link->socket.Send(MakePacket<abi::Leave>(abi::PacketType::kLeave), deadline);
    if (IsOver(sent)) {
      const Lock lock = Acquire();
      leaving_ = false;
      return sent;
    }
    if (!sent.ok()) return SendFailed(link.get(), sent, deadline);
  }
  Lock lock = Acquire();
  const Status error = Await(&lock, link.get(), deadline, [this] { return left_; });
  if (IsOver(error) && end_.ok()) {
    return Status(error.code(), "the daemon still finishes this peer's operations; call Leave again or let go");
  }
  if (left_) End(lock, link.get(), LeftError());
  return left_ ? Status() : error;
}

void Memberships::Abandon() {
  Lock lock = Acquire();
  if (rejoining_) return GiveUpRejoining(&lock);
  if (left_ || !end_.ok()) return;
  // If the socket is full, the end of the stream has the same effect.
  if (!leaving_) (void)link_->socket.Send(MakePacket<abi::Leave>(abi::PacketType::kLeave), Deadline(Milliseconds(0)));
  leaving_ = true;
  End(lock, link_.get(), LeftError());
}

void Memberships::GiveUpRejoining(Lock* lock) {
  rejoining_ = false;
  end_ = LeftError();
  link_->slots.UnshareAll();
  waiter_.NotifyAll(*lock);
  lock->unlock();
  rejoiner_.Stop();
}

}  // namespace ringway::internal
