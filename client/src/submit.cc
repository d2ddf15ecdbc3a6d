// The part of a session that submits. Small inputs are copied to their regions before the submission, large ones after
// it, piece by piece, so that the daemon sends the first pieces while the last are being copied; inputs on a device
// after it whatever their size, for only their stream knows when they will be there.
#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "client/src/session.h"

namespace ringway::internal {
namespace {

constexpr std::size_t kStagedAtOnceMax = std::size_t{1} << 20;
constexpr std::size_t kPieceBytes = std::size_t{4} << 20;

// For temporary failures: a trainer that skips the operation stays one behind the others.
Status NothingSubmitted(const Status& why) {
  if (why.code() != Code::kResourceExhausted) return why;
  return Status(why.code(), why.text() + "; nothing was submitted, the others wait for it: submit it again, or leave");
}

}  // namespace

Result<Work> SessionImpl::Start(const Request& request) {
  auto operation = Submit(request);
  if (!operation.ok()) return operation.status();
  return Work(std::make_shared<WorkImpl>(WorkImpl{shared_from_this(), std::move(operation.value())}));
}

Result<Operation> SessionImpl::Submit(Request request) {
  const Deadline deadline = Within(request.submit_timeout);
  BindToGroup(options(), &request);
  if (Status error = CheckRequest(request); !error.ok()) return error;
  if (OnStateChannel::IsActive()) {
    request.spec.channel = abi::kStateChannel;
    request.as_peer = OnStateChannel::as_peer();
  }
  auto link = memberships_.Enter(request.spec.channel, deadline);
  if (!link.ok()) return link.status();
  const std::uint64_t peer_id = (*link)->membership().peer_id;
  if (request.as_peer != 0 && request.as_peer != peer_id) {
    return Status(Code::kRejoined, "this peer is " + std::to_string(peer_id) + ", not " +
                                       std::to_string(request.as_peer) +
                                       " any more: take the others' state, as a newcomer does, then submit again");
  }
  const std::uint64_t without_from = without_as_ == peer_id ? without_from_.load() : 0;
  if (without_from != 0 && !OnStateChannel::IsActive()) {
    if (Status error = LeaveOut(without_from, peer_id >= without_from, &request); !error.ok()) return error;
  }
  if (Status error = BindToNewestWorld(&request); !error.ok()) return error;
  auto placement = regions_.Place(request);
  if (!placement.ok()) return NothingSubmitted(placement.status());
  return SubmitPlaced(request, placement.value(), *link, deadline);
}

Status SessionImpl::BindToNewestWorld(Request* request) {
  std::shared_ptr<Link> link;
  {
    const Lock lock = memberships_.Acquire();
    link = memberships_.link(lock);
    if (pending_update_ && pending_update_->link == link && operations_.IsSettled(*pending_update_)) {
      (void)operations_.ReadOutcome(lock, *pending_update_);
    }
    if (!view().members.empty()) return BindToWorld({view().peer_id, view().members}, request);
  }
  const auto list = link->ReadMembers();
  if (!list.ok()) return list.status();
  if (list->world_size == 0)
    return Status(Code::kProtocol, "the daemon names no members; install the same version of both");
  std::vector<std::uint64_t> members;
  for (std::uint32_t rank = 0; rank < list->world_size; ++rank) members.push_back(list->members[rank].peer_id);
  return BindToWorld({view().peer_id, members}, request);
}

Result<Operation> SessionImpl::SubmitPlaced(const Request& request, const Placement& placement,
                                            const std::shared_ptr<Link>& link, const Deadline& deadline) {
  Operation operation;
  operation.link = link;
  operation.spec = request.spec;
  operation.output_count = request.layout.output_count;
  operation.part = request.layout.part;
  operation.output = request.output;
  operation.tensors = request.tensors;
  operation.device = placement.device;
  {
    const Lock lock = memberships_.Acquire();
    const auto taken = operations_.TakeSlot(lock, link.get());
    if (!taken.ok()) {
      regions_.ReleaseSlot(lock, link.get(), placement, false);
      return NothingSubmitted(taken.status());
    }
    operation.slot = taken.value();
    link->slots.owner(operation.slot).placement = placement;
    operation.refusals_read = link->slots.RefusalsRead(request.spec);
    if (placement.device) device_.Number(lock, placement.device.get());
    // A message may go beside an update that runs; any other operation comes after it.
    if (request.spec.kind != OpKind::kUpdateView && !IsMessage(request.spec.kind)) DropPendingUpdate(lock);
  }
  const bool is_on_device = placement.device && placement.device->input;
  const bool is_large = is_on_device || request.input_bytes() > kStagedAtOnceMax;
  const bool staged = placement.input.is_staged && is_large;
  if (placement.input.is_staged && !is_large) {
    request.CopyInput(0, request.input_bytes(), placement.input.region->data());
  }
  if (Status error = SendSubmit(request, placement, operation, staged, deadline.Within(kSendPatience)); !error.ok()) {
    const bool is_over = error.code() == Code::kTimeout && deadline.HasPassed();
    if (is_over || error.code() == Code::kInterrupted) {
      error = Status(error.code(), error.text() + "; nothing was submitted: call again");
    } else {
      error = NothingSubmitted(memberships_.SendFailed(link.get(), error, deadline));
    }
    const Lock lock = memberships_.Acquire();
    if (error.code() == Code::kRejoined) memberships_.MarkReported(lock, ChannelOf(request.spec));
    operations_.FreeSlot(lock, link.get(), operation.slot);
    return error;
  }
  if (is_on_device) {
    device_.CopyInput(request, placement.input.region, operation);
  } else if (staged) {
    StageInput(request, placement.input.region, operation);
  }
  return operation;
}

Status SessionImpl::SendSubmit(const Request& request, const Placement& placement, const Operation& operation,
                               bool staged, const Deadline& deadline) {
  Link& link = *operation.link;
  for (Region* const region : placement.regions()) {
    if (region == nullptr) continue;
    if (Status error = regions_.Register(&link, region, deadline); !error.ok()) return error;
  }
  abi::Slot& target = link.slots[operation.slot];
  target.staged_bytes.store(staged ? 0 : request.input_bytes(), std::memory_order_relaxed);
  target.state.store(abi::SlotState::kSubmitted, std::memory_order_release);
  auto packet = MakePacket<abi::Submit>(abi::PacketType::kSubmit);
  packet.spec = request.spec;
  packet.slot = operation.slot;
  packet.staged = staged ? 1 : 0;
  packet.input_region = placement.input.region != nullptr ? placement.input.region->id : 0;
  packet.result_region = placement.result.region != nullptr ? placement.result.region->id : 0;
  packet.input_offset_bytes = placement.input.offset;
  packet.result_offset_bytes = placement.result.offset;
  packet.input_count = request.layout.input_count;
  packet.result_count = request.layout.output_count;
  packet.refusals_told = operation.refusals_read;
  if (request.counts.empty()) return link.socket.Send(packet, deadline);
  const std::size_t counts_bytes = request.counts.size() * sizeof(abi::RankCounts);
  std::vector<std::byte> with_counts(sizeof packet + counts_bytes);
  std::memcpy(with_counts.data(), &packet, sizeof packet);
  std::memcpy(with_counts.data() + sizeof packet, request.counts.data(), counts_bytes);
  return link.socket.Send(with_counts, deadline);
}

// Wait reports errors: the operation is submitted, and its outcome is the slot's or the end of the membership.
void SessionImpl::StageInput(const Request& request, Region* region, const Operation& operation) {
  Link& link = *operation.link;
  for (std::size_t done = 0; done < request.input_bytes();) {
    const std::size_t piece = std::min(kPieceBytes, request.input_bytes() - done);
    request.CopyInput(done, piece, region->data() + done);
    done += piece;
    link.slots[operation.slot].staged_bytes.store(done, std::memory_order_release);
    const Status error = link.SendProgress(operation.slot, done == request.input_bytes());
    if (!error.ok()) return memberships_.Lose(&link, error);
  }
}

}  // namespace ringway::internal
