#include "client/src/session.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <string>
#include <utility>

#include "client/src/fork_guard.h"

namespace ringway::internal {
namespace {

// How long a Leave's or a Cancel's packet may wait for a daemon that does not read.
constexpr Milliseconds kSendPatience = std::chrono::seconds(30);

Error ForkedError() {
  return Error(Code::kForked, "this session belongs to the parent process; join in the child to get one of its own");
}

Error LeftError() { return Error(Code::kLeft, "the session has left its group; join again to go on"); }

}  // namespace

SessionImpl::SessionImpl(PacketSocket socket, SharedMemory page, const Membership& membership)
    : generation_(ForkGeneration()),
      peer_id_(membership.peer_id),
      rank_(membership.rank),
      world_size_(membership.world_size),
      epoch_(membership.epoch),
      socket_(std::move(socket)),
      page_(std::move(page)) {}

std::uint64_t SessionImpl::ForkGenerationNow() { return ForkGeneration(); }

Expected<std::shared_ptr<SessionImpl>> SessionImpl::Join(const JoinOptions& options) {
  if (Error error = CheckJoinOptions(options); !error.ok()) return error;
  const Deadline deadline(options.timeout);
  auto socket = PacketSocket::Connect(options.socket_path, deadline);
  if (!socket.ok()) return socket.error();
  auto page = SharedMemory::Create(sizeof(abi::SessionPage));
  if (!page.ok()) return page.error();
  auto* const layout = new (page->data()) abi::SessionPage{};
  layout->magic = abi::kMagic;
  layout->version = abi::kVersion;
  auto membership = Shake(&socket.value(), page.value(), options, deadline);
  if (!membership.ok()) return membership.error();
  page->CloseDescriptor();
  // In a forked child the last handle must not destroy what threads of the parent may have been using.
  const auto destroy = [](SessionImpl* session) {
    if (!session->Forked()) delete session;
  };
  return std::shared_ptr<SessionImpl>(
      new SessionImpl(std::move(socket.value()), std::move(page.value()), membership.value()), destroy);
}

Error SessionImpl::StateError() {
  if (Forked()) return ForkedError();
  const Lock lock(mutex_);
  if (!end_.ok()) return end_;
  return leaving_ ? LeftError() : Error();
}

Expected<std::uint32_t> SessionImpl::TakeSlot() {
  const Lock lock(mutex_);
  ReclaimDetached(lock);
  for (std::uint32_t i = 0; i < abi::kSlotCount; ++i) {
    const std::uint32_t index = (next_slot_ + i) % abi::kSlotCount;
    if (owners_[index].use != SlotUse::kIdle) continue;
    owners_[index].use = SlotUse::kBusy;
    next_slot_ = index + 1;
    return index;
  }
  return Error(Code::kResourceExhausted,
               std::to_string(abi::kSlotCount) + " operations are in flight; wait for some of them first");
}

void SessionImpl::FreeSlot(const Lock& lock, std::uint32_t index) {
  SlotOwner& owner = owners_[index];
  if (owner.input != nullptr) pool_.Release(owner.input);
  if (owner.result != nullptr) pool_.Release(owner.result);
  owner = SlotOwner();
  slot(index).state.store(abi::SlotState::kFree, std::memory_order_relaxed);
  TrimPool(lock);
}

void SessionImpl::ReclaimDetached(const Lock& lock) {
  for (std::uint32_t index = 0; index < abi::kSlotCount; ++index) {
    if (owners_[index].use == SlotUse::kDetached && IsDone(index)) FreeSlot(lock, index);
  }
}

template <typename Ready>
Error SessionImpl::Await(Lock* lock, const Deadline& deadline, Ready ready) {
  for (;;) {
    if (ready()) return {};
    if (!end_.ok()) return end_;
    bool expired = false;
    if (!reading_) {
      expired = ReadOnce(lock, deadline) == PacketSocket::Received::kTimeout;
    } else if (deadline.never()) {
      changed_.wait(*lock);
    } else {
      expired = changed_.wait_until(*lock, deadline.time()) == std::cv_status::timeout;
    }
    if (expired && !ready() && end_.ok()) {
      return Error(Code::kTimeout, "the timeout of this call passed; the operation goes on: wait again or cancel it");
    }
  }
}

PacketSocket::Received SessionImpl::ReadOnce(Lock* lock, const Deadline& deadline) {
  reading_ = true;
  lock->unlock();
  Packet packet;
  const auto received = socket_.Receive(&packet, deadline);
  lock->lock();
  reading_ = false;
  Handle(*lock, received, packet);
  changed_.notify_all();
  return received;
}

void SessionImpl::Handle(const Lock& lock, PacketSocket::Received received, const Packet& packet) {
  abi::Ended ended;
  switch (received) {
    case PacketSocket::Received::kTimeout:
      return;
    case PacketSocket::Received::kClosed:
      if (left_) return End(lock, LeftError());
      return End(lock, Error(Code::kDaemonLost,
                             "the daemon closed the session or died; the buffers are intact: start ringwayd again and "
                             "join anew"));
    case PacketSocket::Received::kMalformed:
      return End(lock, Error(Code::kProtocol, "the daemon sent a malformed packet; install the same version of both"));
    case PacketSocket::Received::kPacket:
      break;
  }
  // A doorbell says nothing but "look at the slots", which every waiting thread does after each packet.
  if (packet.type() == abi::PacketType::kDoorbell) return;
  if (packet.type() == abi::PacketType::kLeaveReply) {
    left_ = true;
  } else if (packet.Read(abi::PacketType::kEnded, &ended)) {
    End(lock, Error(CheckedCode(ended.code), TextOf(ended.text)));
  } else {
    End(lock, Error(Code::kProtocol, "the daemon sent an unexpected packet; install the same version of both"));
  }
}

void SessionImpl::End(const Lock& /*lock*/, const Error& why) {
  if (end_.ok()) end_ = why;
  changed_.notify_all();
}

Error SessionImpl::SendFailed(const Error& error) {
  if (error.code() == Code::kResourceExhausted) return error;
  Lock lock(mutex_);
  // The daemon may have said why before it closed.
  const Deadline soon(std::chrono::seconds(1));
  (void)Await(&lock, soon, [] { return false; });
  End(lock, error.code() == Code::kTimeout ? Error(Code::kDaemonLost, error.text()) : error);
  return end_;
}

Expected<OpResult> SessionImpl::ReadOutcome(std::uint32_t index) {
  const abi::Slot& done = slot(index);
  if (done.code != Code::kOk) return Error(CheckedCode(done.code), TextOf(done.text));
  if (done.world_size > abi::kWorldSizeMax || done.rank >= done.world_size) {
    return Error(Code::kProtocol, "the daemon's result names an impossible world; install the same version of both");
  }
  OpResult result;
  result.epoch = done.epoch;
  result.rank = done.rank;
  result.world_size = done.world_size;
  result.contributors.assign(done.contributors, done.contributors + done.world_size);
  result.wire_bytes = done.wire_bytes;
  result.retries = done.retries;
  result.update_waits = done.update_waits != 0;
  if (result.epoch >= epoch_) {
    epoch_ = result.epoch;
    rank_ = result.rank;
    world_size_ = result.world_size;
  }
  return result;
}

// REQUIRES: the slot is done or the session ended. Copies without the lock: the slot keeps the regions until then.
Expected<OpResult> SessionImpl::Finish(Operation* operation, Lock* lock) {
  if (IsDone(operation->slot)) {
    operation->outcome = ReadOutcome(operation->slot);
    if (operation->outcome->ok() && operation->copy_to != nullptr) {
      lock->unlock();
      std::memcpy(operation->copy_to, operation->copy_from, operation->copy_bytes);
      lock->lock();
    }
    FreeSlot(*lock, operation->slot);
  } else {
    operation->outcome = end_;
    owners_[operation->slot].use = SlotUse::kDetached;
  }
  return *operation->outcome;
}

Expected<OpResult> SessionImpl::Wait(Operation* operation, const Deadline& deadline) {
  if (operation->outcome) return *operation->outcome;
  if (Forked()) return ForkedError();
  Lock lock(mutex_);
  const Error error = Await(&lock, deadline, [&] { return IsDone(operation->slot); });
  if (error.code() == Code::kTimeout && end_.ok()) return error;
  return Finish(operation, &lock);
}

bool SessionImpl::Test(Operation* operation) {
  if (operation->outcome || Forked() || IsDone(operation->slot)) return true;
  Lock lock(mutex_);
  // Reading here finds the daemon's death, and keeps doorbells from piling up for trainers that only test.
  const Deadline now(Milliseconds(0));
  while (!reading_ && end_.ok() && ReadOnce(&lock, now) == PacketSocket::Received::kPacket) continue;
  return !end_.ok() || IsDone(operation->slot);
}

Error SessionImpl::Cancel(const Operation& operation) {
  if (operation.outcome) return {};
  if (Error error = StateError(); error.code() != Code::kLeft && !error.ok()) return error;
  auto cancel = MakePacket<abi::Cancel>(abi::PacketType::kCancel);
  cancel.slot = operation.slot;
  Error sent = socket_.Send(cancel, Deadline(kSendPatience));
  return sent.ok() ? sent : SendFailed(sent);
}

void SessionImpl::Detach(const Operation& operation) {
  if (operation.outcome || Forked()) return;
  const Lock lock(mutex_);
  owners_[operation.slot].use = SlotUse::kDetached;
  ReclaimDetached(lock);
}

Expected<OpResult> SessionImpl::UpdateView(const Deadline& deadline) {
  if (Error error = StateError(); !error.ok()) return error;
  std::optional<Operation> update;
  {
    const Lock lock(mutex_);
    ReclaimDetached(lock);
    update = std::exchange(pending_update_, std::nullopt);
    const bool idle =
        std::all_of(owners_.begin(), owners_.end(), [](const SlotOwner& owner) { return owner.use == SlotUse::kIdle; });
    if (updating_ || (!update && !idle)) {
      return Error(Code::kInvalidArgument, "UpdateView while operations are in flight; wait for all of them first");
    }
    updating_ = true;
  }
  Expected<OpResult> result = Error(Code::kInternal, "");
  if (!update) {
    Request request;
    request.kind = OpKind::kUpdateView;
    auto submitted = SubmitPlaced(request, Placement());
    if (submitted.ok()) {
      update = submitted.value();
    } else {
      result = submitted.error();
    }
  }
  if (update) result = Wait(&*update, deadline);
  const Lock lock(mutex_);
  updating_ = false;
  // After a timeout the update goes on; the next call waits for the same one.
  if (update && !update->outcome) pending_update_ = update;
  return result;
}

Error SessionImpl::Leave(const Deadline& deadline) {
  if (Forked()) return ForkedError();
  bool first = false;
  {
    const Lock lock(mutex_);
    if (!end_.ok()) return end_;
    first = !std::exchange(leaving_, true);
  }
  if (first) {
    Error sent = socket_.Send(MakePacket<abi::Leave>(abi::PacketType::kLeave), deadline);
    if (sent.code() == Code::kTimeout) {
      const Lock lock(mutex_);
      leaving_ = false;
      return sent;
    }
    if (!sent.ok()) return SendFailed(sent);
  }
  Lock lock(mutex_);
  const Error error = Await(&lock, deadline, [this] { return left_; });
  if (error.code() == Code::kTimeout && end_.ok()) {
    return Error(Code::kTimeout, "the daemon still finishes this peer's operations; call Leave again or let go");
  }
  if (left_) End(lock, LeftError());
  return left_ ? Error() : error;
}

void SessionImpl::Abandon() {
  if (Forked()) return;
  const Lock lock(mutex_);
  if (!left_ && end_.ok()) {
    // If the socket is full the end of the stream says the same.
    if (!leaving_) (void)socket_.Send(MakePacket<abi::Leave>(abi::PacketType::kLeave), Deadline(Milliseconds(0)));
    End(lock, LeftError());
  }
  socket_.Shutdown();
}

}  // namespace ringway::internal
