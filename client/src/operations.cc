#include "client/src/operations.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace ringway::internal {
namespace {

// Whose inputs are in the result, or are not.
std::vector<std::uint64_t> Those(const std::vector<std::uint64_t>& members, std::uint64_t absent, bool are_absent) {
  std::vector<std::uint64_t> out;
  for (std::size_t place = 0; place < members.size(); ++place) {
    if ((absent >> place & 1) == (are_absent ? 1U : 0U)) out.push_back(members[place]);
  }
  return out;
}

Status CancelledBy(const Status& input_error) {
  return Status(input_error.code(),
                input_error.text() + "; the operation was cancelled on all ranks, the session goes on");
}

Status LateInputLost(const Status& input_error) {
  return Status(input_error.code(), input_error.text() +
                                        "; the others went on without it, and it is not kept for the next operation: "
                                        "join again and take the state from them");
}

}  // namespace

void Operations::Adopt(const Lock& lock, Link* before) {
  const Link& link = *memberships_.link(lock);
  const Membership& membership = link.membership();
  view_.peer_id = membership.peer_id;
  view_.rank = membership.rank;
  view_.world_size = membership.world_size;
  view_.epoch = membership.epoch;
  view_.members.clear();
  // The page may name a later view already.
  abi::MemberList list;
  if (abi::ReadMembers(link.members(), &list) && list.epoch >= view_.epoch && list.world_size > 0) {
    for (std::uint32_t rank = 0; rank < std::min(list.world_size, abi::kWorldSizeMax); ++rank) {
      view_.members.push_back(list.members[rank].peer_id);
      if (view_.members.back() == view_.peer_id) view_.rank = rank;
    }
    view_.world_size = static_cast<std::uint32_t>(view_.members.size());
    view_.epoch = list.epoch;
  }
  regions_.SetBytesMax(lock, membership.region_bytes_max);
  if (before != nullptr) ReclaimDetached(lock, before);
}

Result<std::uint32_t> Operations::TakeSlot(const Lock& lock, Link* link) {
  ReclaimDetached(lock, link);
  return link->slots.Take();
}

void Operations::FreeSlot(const Lock& lock, Link* link, std::uint32_t index) {
  const bool lacks_memory = link->slots.LacksMemory(index);
  regions_.ReleaseSlot(lock, link, link->slots.Free(index), lacks_memory);
}

void Operations::ReclaimDetached(const Lock& lock, Link* link) {
  for (std::uint32_t index = 0; index < abi::kSlotCount; ++index) {
    const bool finished = link->slots.IsDone(index) || !memberships_.IsOpen(lock, *link);
    if (link->slots.owner(index).use == SlotUse::kDetached && finished) FreeSlot(lock, link, index);
  }
}

void Operations::Detach(const Lock& lock, const Operation& operation) {
  operation.link->slots.owner(operation.slot).use = SlotUse::kDetached;
  ReclaimDetached(lock, operation.link.get());
}

bool Operations::IsSettled(const Operation& operation) const {
  const Slots& slots = operation.link->slots;
  return slots.IsDone(operation.slot) && !memberships_.MayRejoinAfter(slots[operation.slot].outcome.code);
}

bool Operations::IsReady(const Lock& lock, const Operation& operation) const {
  if (operation.outcome) return true;
  if (operation.is_deferred()) return operation.device->deferral->outcome.has_value();
  return IsDecided(lock, operation);
}

Result<OpResult> Operations::ReadOutcome(const Lock& lock, const Operation& operation) {
  const abi::Slot& slot = operation.link->slots[operation.slot];
  const abi::Outcome outcome = slot.outcome;  // read once: the daemon may write there
  const std::vector<std::uint64_t> members(slot.contributors,
                                           slot.contributors + std::min(outcome.world_size, abi::kWorldSizeMax));
  const bool is_newest = operation.link == memberships_.link(lock);
  const Status input_error = operation.device ? operation.device->input_error : Status();
  if (outcome.code != Code::kOk) {
    if (is_newest && outcome.rank < members.size()) Learn(outcome, members);
    if (!input_error.ok()) return CancelledBy(input_error);
    return Status(CheckedCode(outcome.code), TextOf(slot.text));
  }
  if (outcome.world_size > abi::kWorldSizeMax || outcome.rank >= outcome.world_size) {
    return Status(Code::kProtocol, "the daemon's result names an impossible world; install the same version of both");
  }
  const abi::OpSpec& spec = operation.spec;
  const bool is_root = HasRoot(spec.kind) && spec.root == members[outcome.rank];
  const Part part = operation.part.value_or(ResultOf(spec.kind, spec.count, outcome.world_size, outcome.rank, is_root));
  if (part.count > operation.output_count) {
    return Status(Code::kProtocol, "the daemon's result is larger than its output; install the same version of both");
  }
  if (is_newest) {
    Learn(outcome, members);
    view_.behind = outcome.behind;
  }
  const bool is_late = (outcome.absent >> outcome.rank & 1) != 0;
  if (!input_error.ok() && is_late && abi::KeepsLate(spec)) return LateInputLost(input_error);
  // An older daemon does not say whether it keeps the input; it does what the submission asks for.
  const bool says_kept = operation.link->membership().version >= abi::kVersionOfKept;
  const bool is_kept = says_kept ? outcome.input_kept != 0 : abi::KeepsLate(spec);
  const bool is_known = static_cast<std::uint8_t>(outcome.algorithm) < kAlgorithmCount;
  return OpResult{.epoch = outcome.epoch,
                  .rank = outcome.rank,
                  .world_size = outcome.world_size,
                  .contributors = Those(members, outcome.absent, false),
                  .absent = Those(members, outcome.absent, true),
                  .is_late = is_late,
                  .is_kept = is_late && is_kept,
                  .behind = outcome.behind,
                  .weight = outcome.weight > 0 ? outcome.weight : outcome.world_size,
                  .wire_bytes = outcome.wire_bytes,
                  .retries = outcome.retries,
                  .update_waits = outcome.update_waits != 0,
                  .algorithm = is_known ? outcome.algorithm : Algorithm::kRing,
                  .error_bound = outcome.error_bound,
                  .part = part};
}

void Operations::Learn(const abi::Outcome& outcome, const std::vector<std::uint64_t>& members) {
  if (outcome.epoch < view_.epoch) return;
  view_.epoch = outcome.epoch;
  view_.rank = outcome.rank;
  view_.world_size = static_cast<std::uint32_t>(members.size());
  view_.members = members;
}

Status Operations::CollectResult(Lock* lock, const Operation& operation, const Part& part) {
  if (operation.device && operation.device->output) return operation.device->copy.error;
  const auto [result, offset, is_staged] = operation.link->slots.owner(operation.slot).placement.result;
  if (part.count == 0 || result == nullptr) return {};
  const std::size_t begin = part.begin * SizeOf(operation.spec.dtype);
  const std::size_t bytes = part.count * SizeOf(operation.spec.dtype);
  const bool copies = is_staged && (operation.output != nullptr || operation.tensors != nullptr);
  if (!copies && result->memory.shared()) return {};  // it is in place
  lock->unlock();
  bool collected = true;
  if (copies) {
    if (operation.tensors != nullptr)
      operation.tensors->Scatter(result->data());
    else
      std::memcpy(static_cast<std::byte*>(operation.output) + begin, result->data() + begin, bytes);
  } else {
    collected = result->memory.Fetch(offset + begin, bytes);
  }
  lock->lock();
  if (collected) return {};
  return Status(Code::kIo,
                "the result is there and cannot be read; the session has ended: join again and take the state from the "
                "others");
}

Result<OpResult> Operations::Finish(Lock* lock, Operation* operation, const Status& loss) {
  Link* const link = operation->link.get();
  if (!loss.ok()) {
    operation->outcome = loss;
  } else {
    operation->outcome = operation->read ? *operation->read : ReadOutcome(*lock, *operation);
  }
  if (operation->outcome->ok()) {
    if (Status error = CollectResult(lock, *operation, operation->outcome->value().part); !error.ok()) {
      operation->outcome = error;
      memberships_.End(*lock, link, error);
    }
  }
  if (loss.ok() && link->slots.IsRefused(operation->slot)) {
    // Whoever waits reads of the refusal now; if the session finishes the operation, when somebody waits.
    if (operation->is_deferred())
      operation->device->deferral->has_unread_refusal = true;
    else
      link->slots.CountRefusal(operation->spec.channel);
  }
  FreeSlot(*lock, link, operation->slot);
  return *operation->outcome;
}

Status Operations::Cancel(const Operation& operation) {
  return Ask(operation, MakePacket<abi::Cancel>(abi::PacketType::kCancel));
}

Status Operations::SetDeadline(const Operation& operation, Milliseconds after) {
  if (after < Milliseconds(0) || after > kOpDeadlineMax) return Refuse("a deadline is 0 to 24 days from now");
  auto packet = MakePacket<abi::SetDeadline>(abi::PacketType::kSetDeadline);
  packet.after_ms = static_cast<std::uint32_t>(after.count());
  return Ask(operation, packet);
}

template <typename Packet>
Status Operations::Ask(const Operation& operation, const Packet& packet) {
  if (operation.outcome) return {};
  if (operation.device && !memberships_.Forked()) {
    const Lock lock = memberships_.Acquire();
    if (!operation.device->has_slot) return {};
  }
  if (Status error = memberships_.StateError(); error.code() != Code::kLeft && !error.ok()) return error;
  Status sent = SendAbout(operation, packet, memberships_.Within(kSendPatience));
  if (sent.ok() || sent.code() == Code::kResourceExhausted || sent.code() == Code::kInterrupted) return sent;
  memberships_.Lose(operation.link.get(), sent);
  return memberships_.StateError();
}

Status Operations::SendCancel(const Operation& operation, const Deadline& deadline) {
  return SendAbout(operation, MakePacket<abi::Cancel>(abi::PacketType::kCancel), deadline);
}

// Sends under the lock, for the finisher may free the slot of an operation with a device meanwhile.
template <typename Packet>
Status Operations::SendAbout(const Operation& operation, Packet packet, const Deadline& deadline) {
  packet.slot = operation.slot;
  PacketSocket& socket = operation.link->socket;
  for (;;) {
    {
      const Lock lock = memberships_.Acquire();
      if (operation.device && !operation.device->has_slot) return {};
      Status sent = socket.Send(packet, Deadline(Milliseconds(0)));
      if (sent.code() != Code::kTimeout) return sent;
    }
    if (Status error = socket.AwaitRoom(deadline); !error.ok()) return error;
  }
}

}  // namespace ringway::internal
