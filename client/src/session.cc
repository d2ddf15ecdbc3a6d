#include "client/src/session.h"

#include <algorithm>
#include <string>
#include <utility>

namespace ringway::internal {

SessionImpl::SessionImpl(const JoinOptions& options, std::shared_ptr<Link> link)
    : memberships_(options, std::move(link),
                   [this](Result<std::shared_ptr<Link>> found) { Rejoined(std::move(found)); }),
      regions_(&memberships_),
      operations_(&memberships_, &regions_),
      device_(&memberships_, &regions_, &operations_, [this] { return shared_from_this(); }) {
  const Lock lock = memberships_.Acquire();
  operations_.Adopt(lock, nullptr);
}

Result<std::shared_ptr<SessionImpl>> SessionImpl::Join(const JoinOptions& options, const OnHeld& on_held) {
  if (Status error = CheckJoinOptions(options); !error.ok()) return error;
  const Deadline deadline(options.timeout, &options.interrupted);
  auto link = Link::Connect(options.socket_path, deadline);
  if (!link.ok()) return link.status();
  if (Status error = link.value()->Join(options, 0, on_held, deadline); !error.ok()) return error;
  // In a forked child the last handle must not destroy what threads of the parent may have been using.
  const auto destroy = [](SessionImpl* session) {
    if (!session->Forked()) delete session;
  };
  return std::shared_ptr<SessionImpl>(new SessionImpl(options, std::move(link.value())), destroy);
}

void SessionImpl::Rejoined(Result<std::shared_ptr<Link>> found) {
  const Lock lock = memberships_.Acquire();
  const std::shared_ptr<Link> before = memberships_.link(lock);
  if (memberships_.EndRejoining(lock, std::move(found))) operations_.Adopt(lock, before.get());
}

Result<Buffer> SessionImpl::Allocate(std::size_t bytes, RegionUse use) {
  if (Status error = memberships_.StateError(); !error.ok()) return error;
  if (bytes > kOperationBytesMax) return Refuse("a Buffer has at most 2^46 bytes");
  auto region = regions_.Acquire(bytes, use);
  if (!region.ok()) return region.status();
  std::shared_ptr<Link> link;
  {
    const Lock lock = memberships_.Acquire();
    link = memberships_.link(lock);
    region.value()->buffer_bytes = std::max<std::size_t>(bytes, 1);
  }
  Buffer buffer(std::make_shared<RegionImpl>(shared_from_this(), region.value(), bytes));
  // Spares the first operation the registration, except while the session rejoins.
  const Status registered = regions_.Register(link.get(), region.value(), Within(kSendPatience));
  if (registered.code() == Code::kResourceExhausted || registered.code() == Code::kInterrupted) return registered;
  if (!registered.ok()) memberships_.Lose(link.get(), registered);
  if (Status error = memberships_.StateError(); !error.ok()) return error;
  return buffer;
}

Result<std::vector<Member>> SessionImpl::Members() {
  if (Forked()) return ForkedError();
  std::shared_ptr<Link> link;
  {
    const Lock lock = memberships_.Acquire();
    link = memberships_.link(lock);
  }
  const auto list = link->ReadMembers();
  if (!list.ok()) return list.status();
  std::vector<Member> members;
  for (std::uint32_t rank = 0; rank < list->world_size; ++rank) {
    const abi::MemberEntry& entry = list->members[rank];
    members.push_back({entry.peer_id, TextOf(entry.name), TextOf(entry.site)});
  }
  return members;
}

std::vector<std::uint64_t> SessionImpl::Newcomers() {
  if (Forked()) return {};
  const Lock lock = memberships_.Acquire();
  return memberships_.link(lock)->Newcomers();
}

bool SessionImpl::CanGoWithout() {
  const Lock lock = memberships_.Acquire();
  return memberships_.link(lock)->membership().version >= abi::kVersionOfReplays;
}

void SessionImpl::GoWithout(const Without& inputs) {
  without_as_ = inputs.as_peer;
  without_from_ = inputs.from;
}

Result<OpResult> SessionImpl::Wait(Operation* operation, const Deadline& deadline) {
  if (operation->outcome) return *operation->outcome;
  if (Forked()) return ForkedError();
  Lock lock = memberships_.Acquire();
  if (operation->is_deferred()) return device_.AwaitOutcome(&lock, *operation, deadline);
  Link* const link = operation->link.get();
  const Status error = memberships_.Await(&lock, link, deadline, [&] { return operations_.IsSettled(*operation); });
  if (!error.ok() && memberships_.IsOpen(lock, *link)) return error;  // the timeout, or an interruption
  if (error.ok() && operation->device) {
    if (Status copied = device_.AwaitOutput(&lock, operation, deadline); !copied.ok()) return copied;
  }
  return operations_.Finish(&lock, operation, error);
}

Result<std::size_t> SessionImpl::WaitAny(const std::vector<Operation*>& operations, const Deadline& deadline) {
  if (Forked()) return ForkedError();
  Lock lock = memberships_.Acquire();
  std::size_t first = 0;
  const auto is_ready = [&](const Operation* operation) { return operations_.IsReady(lock, *operation); };
  const auto any_is = [&] {
    first = static_cast<std::size_t>(std::find_if(operations.begin(), operations.end(), is_ready) - operations.begin());
    return first < operations.size();
  };
  // If none is ready, each is of the newest membership, since no other is open, or the finisher has it, whatever
  // becomes of the membership.
  const std::shared_ptr<Link> link = memberships_.link(lock);
  const auto any_is_or_lost = [&] { return any_is() || !memberships_.IsOpen(lock, *link); };
  Status error = memberships_.Await(&lock, link.get(), deadline, any_is_or_lost);
  if (error.ok()) error = device_.AwaitFinisher(&lock, deadline, any_is);
  if (error.ok() || any_is()) return first;
  return error;
}

bool SessionImpl::Test(Operation* operation) {
  if (operation->outcome || Forked() || (!operation->device && operations_.IsSettled(*operation))) return true;
  Lock lock = memberships_.Acquire();
  memberships_.Drain(&lock, operation->link.get());
  if (operation->device && !operation->is_deferred() && operations_.IsSettled(*operation)) {
    const Status copied = device_.AwaitOutput(&lock, operation, Deadline(Milliseconds(0)));  // starts the copy
    return copied.ok();
  }
  return operations_.IsReady(lock, *operation);
}

Status SessionImpl::WaitOnStream(Operation* operation, device::Stream stream, const Deadline& deadline) {
  if (Forked()) return ForkedError();
  if (operation->output != nullptr && (!operation->device || !operation->device->output)) {
    return Status(Code::kInvalidArgument, "the output is in host memory, which no stream waits for: call Wait");
  }
  if (!operation->device) return {};  // a rank without a result has nothing to wait for
  if (operation->outcome) return operation->outcome->status();
  const std::optional<Status> held = device_.HoldStream(*operation, stream, deadline);
  return held ? *held : Wait(operation, deadline).status();
}

void SessionImpl::Detach(const Operation& operation) {
  if (operation.outcome || Forked()) return;
  Lock lock = memberships_.Acquire();
  if (operation.device && !operation.device->has_slot) return;
  Link* const link = operation.link.get();
  if (memberships_.IsOpen(lock, *link) && !link->slots.Unshare(operation.slot)) {
    const auto is_over = [&] { return link->slots.IsDone(operation.slot) || !memberships_.IsOpen(lock, *link); };
    (void)memberships_.Await(&lock, link, Deadline(kForever), is_over);
  }
  if (operation.is_deferred()) {
    operation.device->deferral->is_orphan = true;
  } else {
    operations_.Detach(lock, operation);
  }
}

Result<OpResult> SessionImpl::UpdateView(const Deadline& deadline) {
  auto link = memberships_.Enter(kUpdates, deadline);
  if (!link.ok()) return link.status();
  std::optional<Operation> update;
  {
    Lock lock = memberships_.Acquire();
    if (Status error = AwaitDetached(&lock, link->get(), deadline); !error.ok()) return error;
    update = std::exchange(pending_update_, std::nullopt);
    if (update && update->link != *link) update.reset();  // its membership has ended, which was reported
    if (updating_ || (!update && !(*link)->slots.AreIdle())) {
      return Status(Code::kInvalidArgument, "UpdateView while operations are in flight; wait for all of them first");
    }
    updating_ = true;
  }
  Result<OpResult> result = Status(Code::kInternal, "");
  if (!update) {
    Request request;
    request.spec.kind = OpKind::kUpdateView;
    auto submitted = SubmitPlaced(request, Placement(), *link, deadline);
    if (submitted.ok()) {
      update = submitted.value();
    } else {
      result = submitted.status();
    }
  }
  if (update) result = Wait(&*update, deadline);
  const Lock lock = memberships_.Acquire();
  updating_ = false;
  // After a timeout the update goes on; the next call waits for the same one.
  if (update && !update->outcome) pending_update_ = update;
  return result;
}

Status SessionImpl::AwaitDetached(Lock* lock, Link* link, const Deadline& deadline) {
  const auto are_over = [&] {
    operations_.ReclaimDetached(*lock, link);
    return device_.IsIdle(*lock) && !link->slots.HasDetached();
  };
  Status error = memberships_.Await(lock, link, deadline.Within(kHungCheck), are_over);
  while (error.code() == Code::kTimeout && !deadline.HasPassed()) {
    device_.GiveUpHungCopies(*lock, link);
    error = memberships_.Await(lock, link, deadline.Within(kHungCheck), are_over);
  }
  if (error.code() != Code::kTimeout && error.code() != Code::kInterrupted) return error;
  return Status(error.code(), "an operation whose Work was destroyed goes on, and nothing was submitted: call again");
}

void SessionImpl::DropPendingUpdate(const Lock& lock) {
  if (!pending_update_) return;
  operations_.Detach(lock, *pending_update_);
  pending_update_.reset();
}

}  // namespace ringway::internal
