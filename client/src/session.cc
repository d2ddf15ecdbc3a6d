#include "client/src/session.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "client/src/fork_guard.h"

namespace ringway::internal {
namespace {

// on_waiting is not called while rejoining.
JoinOptions ForRejoining(JoinOptions options) {
  options.on_waiting = nullptr;
  return options;
}

}  // namespace

SessionImpl::SessionImpl(const JoinOptions& options, std::shared_ptr<Link> link)
    : options_(ForRejoining(options)), generation_(ForkGeneration()) {
  const Lock lock(mutex_);
  Install(lock, std::move(link));
}

std::uint64_t SessionImpl::ForkGenerationNow() { return ForkGeneration(); }

Expected<std::shared_ptr<SessionImpl>> SessionImpl::Join(const JoinOptions& options) {
  if (Error error = CheckJoinOptions(options); !error.ok()) return error;
  const Deadline deadline(options.timeout, &options.interrupted);
  auto link = Link::Connect(options.socket_path, deadline);
  if (!link.ok()) return link.error();
  if (Error error = link.value()->Join(options, 0, deadline); !error.ok()) return error;
  // In a forked child the last handle must not destroy what threads of the parent may have been using.
  const auto destroy = [](SessionImpl* session) {
    if (!session->Forked()) delete session;
  };
  return std::shared_ptr<SessionImpl>(new SessionImpl(options, std::move(link.value())), destroy);
}

Expected<std::uint32_t> SessionImpl::TakeSlot(Link* link) {
  const Lock lock(mutex_);
  ReclaimDetached(lock, link);
  for (std::uint32_t i = 0; i < abi::kSlotCount; ++i) {
    const std::uint32_t index = (link->next_slot + i) % abi::kSlotCount;
    if (link->owners[index].use != SlotUse::kIdle) continue;
    link->owners[index].use = SlotUse::kBusy;
    link->next_slot = index + 1;
    return index;
  }
  return Error(Code::kResourceExhausted,
               std::to_string(abi::kSlotCount) + " operations are in flight; wait for some of them first");
}

void SessionImpl::FreeSlot(const Lock& lock, Link* link, std::uint32_t index) {
  SlotOwner& owner = link->owners[index];
  const abi::Slot& slot = link->slot(index);
  const bool lacks_memory =
      link->IsDone(index) && slot.outcome.refused != 0 && slot.outcome.code == Code::kResourceExhausted;
  for (Region* const region : {owner.input, owner.result}) {
    if (region == nullptr) continue;
    // The daemon may have refused the region for good: the next use registers it anew. The last user does it, for
    // another thread may be about to submit with the id.
    const std::uint32_t last = region->buffer_bytes > 0 ? 2 : 1;
    if (lacks_memory && region->users == last) (void)Unregister(lock, link, region);
    pool_.Release(region);
  }
  if (owner.device) owner.device->has_slot = false;
  owner = SlotOwner();
  link->slot(index).state.store(abi::SlotState::kFree, std::memory_order_relaxed);
  while (lacks_memory && EvictOldest(lock)) continue;  // makes room for the next attempt
  TrimPool(lock);
}

void SessionImpl::ReclaimDetached(const Lock& lock, Link* link) {
  for (std::uint32_t index = 0; index < abi::kSlotCount; ++index) {
    const bool finished = link->IsDone(index) || !IsOpen(*link);
    if (link->owners[index].use == SlotUse::kDetached && finished) FreeSlot(lock, link, index);
  }
}

bool SessionImpl::IsSettled(const Operation& operation) const {
  if (!operation.link->IsDone(operation.slot)) return false;
  return !MayRejoinAfter(operation.link->slot(operation.slot).outcome.code);
}

bool SessionImpl::IsReady(const Operation& operation) const {
  if (operation.outcome) return true;
  const DevicePart* const device = operation.device.get();
  if (device != nullptr && device->is_deferred) return device->outcome.has_value();
  return IsSettled(operation) || !IsOpen(*operation.link);
}

Expected<OpResult> SessionImpl::ReadOutcome(const Operation& operation) {
  const abi::Slot& slot = operation.link->slot(operation.slot);
  const abi::Outcome outcome = slot.outcome;  // read once: the daemon may write there
  const std::vector<std::uint64_t> contributors(slot.contributors,
                                                slot.contributors + std::min(outcome.world_size, abi::kWorldSizeMax));
  if (outcome.code != Code::kOk) {
    if (outcome.rank < contributors.size()) LearnOf(operation, outcome, contributors);
    if (operation.device && !operation.device->input_error.ok()) return operation.device->input_error;
    return Error(CheckedCode(outcome.code), TextOf(slot.text));
  }
  if (outcome.world_size > abi::kWorldSizeMax || outcome.rank >= outcome.world_size) {
    return Error(Code::kProtocol, "the daemon's result names an impossible world; install the same version of both");
  }
  const abi::OpSpec& spec = operation.spec;
  const bool is_root = HasRoot(spec.kind) && spec.root == contributors[outcome.rank];
  const Part part = operation.part.value_or(ResultOf(spec.kind, spec.count, outcome.world_size, outcome.rank, is_root));
  if (part.count > operation.output_count) {
    return Error(Code::kProtocol, "the daemon's result is larger than its output; install the same version of both");
  }
  LearnOf(operation, outcome, contributors);
  const bool is_known = static_cast<std::uint8_t>(outcome.algorithm) < kAlgorithmCount;
  return OpResult{.epoch = outcome.epoch,
                  .rank = outcome.rank,
                  .world_size = outcome.world_size,
                  .contributors = contributors,
                  .wire_bytes = outcome.wire_bytes,
                  .retries = outcome.retries,
                  .update_waits = outcome.update_waits != 0,
                  .algorithm = is_known ? outcome.algorithm : Algorithm::kRing,
                  .error_bound = outcome.error_bound,
                  .part = part};
}

void SessionImpl::LearnOf(const Operation& operation, const abi::Outcome& outcome,
                          const std::vector<std::uint64_t>& members) {
  if (operation.link != link_ || outcome.epoch < epoch_) return;
  epoch_ = outcome.epoch;
  rank_ = outcome.rank;
  world_size_ = static_cast<std::uint32_t>(members.size());
  members_ = members;
}

Error SessionImpl::CollectResult(const Operation& operation, const Part& part, Lock* lock) {
  if (operation.device && operation.device->output) return operation.device->output_error;
  Region* const result = operation.link->owners[operation.slot].result;
  if (part.count == 0 || result == nullptr) return {};
  const std::size_t begin = part.begin * SizeOf(operation.spec.dtype);
  const std::size_t bytes = part.count * SizeOf(operation.spec.dtype);
  const bool is_in_place = !operation.copies_result && result->memory.shared();
  if (is_in_place) return {};
  lock->unlock();
  bool collected = true;
  if (operation.copies_result) {
    if (operation.tensors != nullptr)
      operation.tensors->Scatter(result->data());
    else
      std::memcpy(static_cast<std::byte*>(operation.output) + begin, result->data() + begin, bytes);
  } else {
    collected = result->memory.Fetch(OffsetIn(*result, operation.output) + begin, bytes);
  }
  lock->lock();
  if (collected) return {};
  return Error(Code::kIo,
               "the result is there and cannot be read; the session has ended: join again and take the state from the "
               "others");
}

Expected<OpResult> SessionImpl::Finish(Operation* operation, Lock* lock, const Error& loss) {
  if (loss.ok()) {
    operation->outcome = operation->read ? *operation->read : ReadOutcome(*operation);
    if (operation->outcome->ok()) {
      const Part part = operation->outcome->value().part;
      if (Error error = CollectResult(*operation, part, lock); !error.ok()) {
        operation->outcome = error;
        End(*lock, operation->link.get(), error);
      }
    }
    if (operation->link->slot(operation->slot).outcome.refused != 0) Refused(*lock, *operation);
  } else {
    operation->outcome = loss;
  }
  FreeSlot(*lock, operation->link.get(), operation->slot);
  return *operation->outcome;
}

// Whoever waits is told now, or, of an operation that the session finishes, when somebody waits.
void SessionImpl::Refused(const Lock& /*lock*/, const Operation& operation) {
  if (operation.device && operation.device->is_deferred)
    operation.device->has_untold_refusal = true;
  else
    ++operation.link->refusals_told.at(operation.spec.channel);
}

Expected<OpResult> SessionImpl::Wait(Operation* operation, const Deadline& deadline) {
  if (operation->outcome) return *operation->outcome;
  if (Forked()) return ForkedError();
  Lock lock(mutex_);
  if (operation->device && operation->device->is_deferred) return AwaitDeferred(&lock, *operation, deadline);
  Link* const link = operation->link.get();
  const Error error = Await(&lock, link, deadline, [&] { return IsSettled(*operation); });
  if (!error.ok() && IsOpen(*link)) return error;  // the timeout, or an interruption
  if (error.ok() && operation->device) {
    if (Error copied = AwaitOutput(&lock, operation, deadline); !copied.ok()) return copied;
  }
  return Finish(operation, &lock, error);
}

Expected<std::size_t> SessionImpl::WaitAny(const std::vector<Operation*>& operations, const Deadline& deadline) {
  if (Forked()) return ForkedError();
  Lock lock(mutex_);
  std::size_t first = 0;
  const auto is_ready = [this](const Operation* operation) { return IsReady(*operation); };
  const auto any_is = [&] {
    first = static_cast<std::size_t>(std::find_if(operations.begin(), operations.end(), is_ready) - operations.begin());
    return first < operations.size();
  };
  // If none is ready, all are of the newest membership, no other being open, or the finisher has them: with the
  // membership's end, too.
  const std::shared_ptr<Link> link = link_;
  Error error = Await(&lock, link.get(), deadline, [&] { return any_is() || !IsOpen(*link); });
  if (error.ok()) error = AwaitFinisher(&lock, deadline, any_is);
  if (error.ok() || any_is()) return first;
  return error;
}

bool SessionImpl::Test(Operation* operation) {
  if (operation->outcome || Forked() || (!operation->device && IsSettled(*operation))) return true;
  Lock lock(mutex_);
  Link* const link = operation->link.get();
  // Reading here detects the daemon's death, and drains doorbells for trainers that only test.
  const Deadline now(Milliseconds(0));
  while (!link->reading && link->end.ok() && ReadOnce(&lock, link, now) == PacketSocket::Received::kPacket) continue;
  if (operation->device && !operation->device->is_deferred && IsSettled(*operation)) {
    const Error copied = AwaitOutput(&lock, operation, now);  // starts the copy
    return copied.ok();
  }
  return IsReady(*operation);
}

Error SessionImpl::Cancel(const Operation& operation) {
  return Ask(operation, MakePacket<abi::Cancel>(abi::PacketType::kCancel));
}

Error SessionImpl::SetDeadline(const Operation& operation, Milliseconds after) {
  if (after < Milliseconds(0) || after > kOpDeadlineMax) return Refuse("a deadline is 0 to 24 days from now");
  auto packet = MakePacket<abi::SetDeadline>(abi::PacketType::kSetDeadline);
  packet.after_ms = static_cast<std::uint32_t>(after.count());
  return Ask(operation, packet);
}

template <typename Packet>
Error SessionImpl::Ask(const Operation& operation, const Packet& packet) {
  if (operation.outcome) return {};
  if (operation.device && !Forked()) {
    const Lock lock(mutex_);
    if (!operation.device->has_slot) return {};
  }
  if (Error error = StateError(); error.code() != Code::kLeft && !error.ok()) return error;
  Error sent = SendAbout(operation, packet, Within(kSendPatience));
  if (sent.ok() || sent.code() == Code::kResourceExhausted || sent.code() == Code::kInterrupted) return sent;
  Lose(operation.link.get(), sent);
  return StateError();
}

Error SessionImpl::SendCancel(const Operation& operation, const Deadline& deadline) {
  return SendAbout(operation, MakePacket<abi::Cancel>(abi::PacketType::kCancel), deadline);
}

// Under the lock: of an operation with a device the finisher may give the slot to another meanwhile.
template <typename Packet>
Error SessionImpl::SendAbout(const Operation& operation, Packet packet, const Deadline& deadline) {
  packet.slot = operation.slot;
  PacketSocket& socket = operation.link->socket;
  for (;;) {
    {
      const Lock lock(mutex_);
      if (operation.device && !operation.device->has_slot) return {};
      Error sent = socket.Send(packet, Deadline(Milliseconds(0)));
      if (sent.code() != Code::kTimeout) return sent;
    }
    if (Error error = socket.AwaitRoom(deadline); !error.ok()) return error;
  }
}

void SessionImpl::Detach(const Operation& operation) {
  if (operation.outcome || Forked()) return;
  Lock lock(mutex_);
  if (operation.device && !operation.device->has_slot) return;
  if (IsOpen(*operation.link) && !Unshare(*operation.link, operation.slot)) {
    const auto is_over = [&] { return operation.link->IsDone(operation.slot) || !IsOpen(*operation.link); };
    (void)Await(&lock, operation.link.get(), Deadline(kForever), is_over);
  }
  const bool is_deferred = operation.device && operation.device->is_deferred;
  if (is_deferred) operation.device->is_orphan = true;
  if (!is_deferred) LetGo(lock, operation);
}

bool SessionImpl::Unshare(const Link& link, std::uint32_t index) {
  const SlotOwner& owner = link.owners[index];
  if (owner.use == SlotUse::kIdle || link.IsDone(index)) return true;
  bool done = true;
  for (Region* const region : {owner.input, owner.result}) {
    if (region != nullptr && region->buffer_bytes > 0) done = region->memory.Unshare() && done;
  }
  return done;
}

void SessionImpl::LetGo(const Lock& lock, const Operation& operation) {
  operation.link->owners[operation.slot].use = SlotUse::kDetached;
  ReclaimDetached(lock, operation.link.get());
}

Expected<OpResult> SessionImpl::UpdateView(const Deadline& deadline) {
  auto link = Enter(kUpdates, deadline);
  if (!link.ok()) return link.error();
  std::optional<Operation> update;
  {
    Lock lock(mutex_);
    if (Error error = AwaitDetached(&lock, link->get(), deadline); !error.ok()) return error;
    update = std::exchange(pending_update_, std::nullopt);
    if (update && update->link != *link) update.reset();  // its membership has ended, which was reported
    const auto& owners = (*link)->owners;
    const bool idle =
        std::all_of(owners.begin(), owners.end(), [](const SlotOwner& owner) { return owner.use == SlotUse::kIdle; });
    if (updating_ || (!update && !idle)) {
      return Error(Code::kInvalidArgument, "UpdateView while operations are in flight; wait for all of them first");
    }
    updating_ = true;
  }
  Expected<OpResult> result = Error(Code::kInternal, "");
  if (!update) {
    Request request;
    request.spec.kind = OpKind::kUpdateView;
    auto submitted = SubmitPlaced(request, Placement(), *link, deadline);
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

Error SessionImpl::AwaitDetached(Lock* lock, Link* link, const Deadline& deadline) {
  const auto is_detached = [](const SlotOwner& owner) { return owner.use == SlotUse::kDetached; };
  const auto is_orphan = [](const Operation& operation) { return operation.device->is_orphan; };
  const auto are_over = [&] {
    ReclaimDetached(*lock, link);
    return copies_.empty() && std::none_of(deferred_.begin(), deferred_.end(), is_orphan) &&
           std::none_of(link->owners.begin(), link->owners.end(), is_detached);
  };
  Error error = Await(lock, link, deadline.Within(kHungCheck), are_over);
  while (error.code() == Code::kTimeout && !deadline.HasPassed()) {
    GiveUpHungCopies(*lock, link);
    error = Await(lock, link, deadline.Within(kHungCheck), are_over);
  }
  if (error.code() != Code::kTimeout && error.code() != Code::kInterrupted) return error;
  return Error(error.code(), "an operation whose Work was destroyed goes on, and nothing was submitted: call again");
}

void SessionImpl::DropPendingUpdate(const Lock& lock) {
  if (!pending_update_) return;
  LetGo(lock, *pending_update_);
  pending_update_.reset();
}

Error SessionImpl::Leave(const Deadline& deadline) {
  if (Forked()) return ForkedError();
  bool first = false;
  std::shared_ptr<Link> link;
  {
    Lock lock(mutex_);
    if (rejoining_) {
      GiveUpRejoining(&lock);
      return {};
    }
    if (!end_.ok()) return end_;
    first = !std::exchange(leaving_, true);
    link = link_;
  }
  if (first) {
    Error sent = link->socket.Send(MakePacket<abi::Leave>(abi::PacketType::kLeave), deadline);
    if (sent.code() == Code::kTimeout || sent.code() == Code::kInterrupted) {
      const Lock lock(mutex_);
      leaving_ = false;
      return sent;
    }
    if (!sent.ok()) return SendFailed(link.get(), sent, deadline);
  }
  Lock lock(mutex_);
  const Error error = Await(&lock, link.get(), deadline, [this] { return left_; });
  if ((error.code() == Code::kTimeout || error.code() == Code::kInterrupted) && end_.ok()) {
    return Error(error.code(), "the daemon still finishes this peer's operations; call Leave again or let go");
  }
  if (left_) End(lock, link.get(), LeftError());
  return left_ ? Error() : error;
}

void SessionImpl::Abandon() {
  if (Forked()) return;
  Lock lock(mutex_);
  if (rejoining_) return GiveUpRejoining(&lock);
  if (left_ || !end_.ok()) return;
  // If the socket is full, the end of the stream has the same effect.
  if (!leaving_) (void)link_->socket.Send(MakePacket<abi::Leave>(abi::PacketType::kLeave), Deadline(Milliseconds(0)));
  leaving_ = true;
  End(lock, link_.get(), LeftError());
}

void SessionImpl::GiveUpRejoining(Lock* lock) {
  rejoining_ = false;
  end_ = LeftError();
  UnshareUnfinished(*lock, *link_);
  changed_.notify_all();
  lock->unlock();
  rejoiner_.Stop();
}

}  // namespace ringway::internal
