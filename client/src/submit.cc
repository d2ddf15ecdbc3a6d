// Submission: from the trainer's memory to the daemon.
//
// Placement: an input inside a Buffer is read in place; any other is staged through a pooled region. A result goes
// straight into an output Buffer of another region than the input; else into a pooled region, from which Wait copies
// after commit. So only the trainer's own threads write to its memory, and where input and output are the same nobody
// does before commit.
//
// Staging: small inputs are copied before the submission, large ones after it, piece by piece, so that the daemon sends
// the first pieces while the last are being copied; those on a device after it whatever their size, for only their
// stream knows when they will be there.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>
#include <thread>
#include <utility>

#include "client/src/session.h"

namespace ringway::internal {
namespace {

constexpr std::size_t kStagedAtOnceMax = std::size_t{1} << 20;
constexpr std::size_t kPieceBytes = std::size_t{4} << 20;

// For temporary failures: a trainer that skips the operation stays one behind the others.
Error NothingSubmitted(const Error& why) {
  if (why.code() != Code::kResourceExhausted) return why;
  return Error(why.code(), why.text() + "; nothing was submitted, the others wait for it: submit it again, or leave");
}

Error RefuseDeviceMemory(const TensorList& list, std::size_t element_bytes) {
  for (const Tensor& tensor : list.tensors()) {
    const std::size_t bytes = tensor.count * element_bytes;
    const auto device = FindDeviceMemory({tensor.input, bytes}, {tensor.output, bytes});
    if (!device.ok()) return device.error();
    if (*device != nullptr) {
      return Error(Code::kNotSupported, "a list of tensors is in host memory: reduce those of a device one by one");
    }
  }
  return {};
}

}  // namespace

Expected<Region*> SessionImpl::AcquireRegion(std::size_t bytes, bool for_buffer) {
  const std::size_t class_bytes = RegionPool::SizeClass(bytes);
  {
    const Lock lock(mutex_);
    // Once the session has ended, operations that still run may use regions that count as free.
    if (!end_.ok()) return end_;
    if (Region* const region = pool_.TakeFree(class_bytes, for_buffer)) return region;
  }
  return CreateRegion(class_bytes);
}

Expected<Region*> SessionImpl::CreateRegion(std::size_t class_bytes) {
  std::uint32_t id = RegionPool::kNoId;
  {
    const Lock lock(mutex_);
    if (pool_.bytes_max() > 0 && class_bytes > pool_.bytes_max()) {
      return Error(Code::kResourceExhausted,
                   std::to_string(class_bytes) + " bytes do not fit: the daemon takes at most " +
                       std::to_string(pool_.bytes_max()) +
                       " of a session, half of its --memory-max; use less, or start ringwayd with more");
    }
    while (pool_.Exceeds(class_bytes) && EvictOldest(lock)) continue;
    id = pool_.ReserveId();
    if (id == RegionPool::kNoId && EvictOldest(lock)) id = pool_.ReserveId();
  }
  if (id == RegionPool::kNoId) {
    return Error(Code::kResourceExhausted,
                 std::to_string(abi::kRegionCountMax) + " regions are in use; free Buffers or use fewer, larger ones");
  }
  auto memory = SharedMemory::Create(class_bytes);
  Lock lock(mutex_);
  // Evicted memory is available only when the daemon has unmapped it, too.
  constexpr int kTriesMax = 20;
  bool evicted = false;
  for (int tries = 0; !memory.ok() && tries < kTriesMax;) {
    const bool more = EvictOldest(lock);
    evicted = evicted || more;
    if (!evicted) break;
    lock.unlock();
    if (!more) {
      ++tries;
      std::this_thread::sleep_for(Milliseconds(50));
    }
    memory = SharedMemory::Create(class_bytes);
    lock.lock();
  }
  if (memory.ok()) return pool_.Add(id, std::move(memory.value()));
  pool_.ReturnId(id);
  return memory.error();
}

Error SessionImpl::Register(Link* link, Region* region, const Deadline& deadline) {
  const std::lock_guard<std::mutex> one_at_a_time(registering_);
  if (region->registered_on >= link->serial) return {};
  auto packet = MakePacket<abi::RegisterRegion>(abi::PacketType::kRegisterRegion);
  packet.region_id = region->id;
  packet.bytes = region->memory.bytes();
  Error sent = link->socket.Send(packet, deadline, region->memory.descriptor());
  if (!sent.ok()) return sent;
  region->registered_on = link->serial;
  return {};
}

// Sends under the lock, so that no other thread registers the id again before the daemon is told of its end.
bool SessionImpl::Unregister(const Lock& /*lock*/, Link* link, Region* region) {
  if (!link->end.ok() || region->registered_on != link->serial) return true;
  auto packet = MakePacket<abi::UnregisterRegion>(abi::PacketType::kUnregisterRegion);
  packet.region_id = region->id;
  if (!link->socket.Send(packet, Deadline(Milliseconds(0))).ok()) return false;
  region->registered_on = 0;
  return true;
}

// The region stays in the pool until a later call if the daemon cannot be told.
bool SessionImpl::EvictOldest(const Lock& lock) {
  Region* const region = pool_.OldestFree();
  if (region == nullptr || !Unregister(lock, link_.get(), region)) return false;
  pool_.Evict(region);
  return true;
}

void SessionImpl::TrimPool(const Lock& lock) {
  while (pool_.HasTooMuchFree() && EvictOldest(lock)) continue;
}

void SessionImpl::ReleaseBuffer(Region* region) {
  if (Forked()) return;
  const Lock lock(mutex_);
  region->buffer_bytes = 0;
  pool_.Release(region);
  TrimPool(lock);
}

std::size_t SessionImpl::RoomFor(std::size_t bytes) {
  const Lock lock(mutex_);
  return pool_.RoomFor(RegionPool::SizeClass(bytes));
}

Expected<Buffer> SessionImpl::Allocate(std::size_t bytes) {
  if (Error error = StateError(); !error.ok()) return error;
  if (bytes > kOperationBytesMax) return Refuse("a Buffer has at most 2^46 bytes");
  auto region = AcquireRegion(bytes, true);
  if (!region.ok()) return region.error();
  std::shared_ptr<Link> link;
  {
    const Lock lock(mutex_);
    link = link_;
    region.value()->buffer_bytes = std::max<std::size_t>(bytes, 1);
  }
  Buffer buffer(std::make_shared<RegionImpl>(shared_from_this(), region.value(), bytes));
  // Spares the first operation the registration, except while the session rejoins.
  const Error registered = Register(link.get(), region.value(), Within(kSendPatience));
  if (registered.code() == Code::kResourceExhausted || registered.code() == Code::kInterrupted) return registered;
  if (!registered.ok()) Lose(link.get(), registered);
  if (Error error = StateError(); !error.ok()) return error;
  return buffer;
}

Expected<Region*> SessionImpl::FindZeroCopy(const Lock& /*lock*/, const Memory& memory) const {
  Region* const region = memory.bytes > 0 ? pool_.FindBuffer(memory.data) : nullptr;
  if (region == nullptr) return nullptr;
  const std::size_t offset = OffsetIn(*region, memory.data);
  if (memory.bytes > region->buffer_bytes - offset) {
    return Refuse(std::string(memory.name) + " exceeds the end of its Buffer");
  }
  if (!region->memory.shared()) {
    return Refuse(std::string(memory.name) +
                  " is in a Buffer that was left to an operation whose Work was destroyed before its "
                  "outcome: free the Buffer and allocate another; Wait for Works, or Cancel them");
  }
  return offset % memory.element_bytes == 0 ? region : nullptr;
}

Error SessionImpl::PlaceInput(const Request& request, Placement* placement) {
  {
    const Lock lock(mutex_);
    auto found = FindZeroCopy(lock, {request.input, request.input_bytes(), SizeOf(request.spec.dtype), "input"});
    if (!found.ok()) return found.error();
    if (Region* const region = found.value()) {
      pool_.AddUser(region);
      placement->input = region;
      placement->input_offset = OffsetIn(*region, request.input);
      return {};
    }
  }
  auto region = AcquireRegion(request.input_bytes(), false);
  if (!region.ok()) return region.error();
  placement->input = region.value();
  placement->stages_input = true;
  const DevicePart* const device = placement->device.get();
  if (device == nullptr || !device->input) return {};
  return BeforeSubmission(PinRegion(device->library, *device->input, region.value()));
}

Error SessionImpl::PlaceResult(const Request& request, Placement* placement) {
  {
    const Lock lock(mutex_);
    auto found = FindZeroCopy(lock, {request.output, request.output_bytes(), SizeOf(request.spec.dtype), "output"});
    if (!found.ok()) return found.error();
    Region* const region = found.value();
    if (region != nullptr && region != placement->input) {
      pool_.AddUser(region);
      placement->result = region;
      placement->result_offset = OffsetIn(*region, request.output);
      return {};
    }
  }
  auto region = AcquireRegion(request.output_bytes(), false);
  if (!region.ok()) return region.error();
  placement->result = region.value();
  placement->copies_result = request.output != nullptr || request.tensors != nullptr;
  const DevicePart* const device = placement->device.get();
  if (device == nullptr || !device->output) return {};
  return BeforeSubmission(PinRegion(device->library, *device->output, region.value()));
}

Expected<SessionImpl::Placement> SessionImpl::Place(const Request& request) {
  Placement placement;
  if (request.tensors != nullptr) {
    if (Error error = RefuseDeviceMemory(*request.tensors, SizeOf(request.spec.dtype)); !error.ok()) return error;
  } else if (request.input_count + request.output_count > 0) {
    auto device = FindDeviceMemory({request.input, request.input_bytes()}, {request.output, request.output_bytes()});
    if (!device.ok()) return device.error();
    placement.device = std::move(device.value());
  }
  if (DevicePart* const device = placement.device.get()) {
    const std::int32_t marked = device->input ? *device->input : *device->output;
    const auto status = device->library->MarkStream(marked, request.stream, &device->submitted);
    if (!status.ok()) return BeforeSubmission(status);
  }
  Error error = request.input_count > 0 ? PlaceInput(request, &placement) : Error();
  if (error.ok() && request.output_count > 0) error = PlaceResult(request, &placement);
  if (error.ok()) return placement;
  ReleasePlacement(placement);
  return error;
}

void SessionImpl::ReleasePlacement(const Placement& placement) {
  const Lock lock(mutex_);
  if (placement.input != nullptr) pool_.Release(placement.input);
  if (placement.result != nullptr) pool_.Release(placement.result);
  TrimPool(lock);
}

std::uint64_t SessionImpl::RefusalsTold(const Lock& /*lock*/, const Link& link, const Request& request) {
  const auto& told = link.refusals_told;
  if (request.spec.kind != OpKind::kUpdateView) return told[request.spec.channel];
  return std::accumulate(told.begin(), told.end(), std::uint64_t{0});
}

Error SessionImpl::SendSubmit(const Request& request, const Placement& placement, const Operation& operation,
                              bool staged, const Deadline& deadline) {
  for (Region* const region : {placement.input, placement.result}) {
    if (region == nullptr) continue;
    if (Error error = Register(operation.link.get(), region, deadline); !error.ok()) return error;
  }
  abi::Slot& target = operation.link->slot(operation.slot);
  target.staged_bytes.store(staged ? 0 : request.input_bytes(), std::memory_order_relaxed);
  target.state.store(abi::SlotState::kSubmitted, std::memory_order_release);
  auto packet = MakePacket<abi::Submit>(abi::PacketType::kSubmit);
  packet.spec = request.spec;
  packet.slot = operation.slot;
  packet.staged = staged ? 1 : 0;
  packet.input_region = placement.input != nullptr ? placement.input->id : 0;
  packet.result_region = placement.result != nullptr ? placement.result->id : 0;
  packet.input_offset_bytes = placement.input_offset;
  packet.result_offset_bytes = placement.result_offset;
  packet.input_count = request.input_count;
  packet.result_count = request.output_count;
  packet.refusals_told = operation.refusals_told;
  if (request.counts.empty()) return operation.link->socket.Send(packet, deadline);
  const std::size_t counts_bytes = request.counts.size() * sizeof(abi::RankCounts);
  std::vector<std::byte> with_counts(sizeof packet + counts_bytes);
  std::memcpy(with_counts.data(), &packet, sizeof packet);
  std::memcpy(with_counts.data() + sizeof packet, request.counts.data(), counts_bytes);
  return operation.link->socket.Send(with_counts, deadline);
}

Error SessionImpl::SendProgress(Link* link, std::uint32_t slot, bool is_last) {
  auto packet = MakePacket<abi::Progress>(abi::PacketType::kProgress);
  packet.slot = slot;
  // If the socket is full, earlier packets wake the daemon, which reads staged_bytes.
  const Error error = link->socket.Send(packet, Deadline(is_last ? kSendPatience : Milliseconds(0)));
  return is_last || error.code() != Code::kTimeout ? error : Error();
}

// Wait reports errors: the operation is submitted, and its outcome is the slot's or the end of the membership.
void SessionImpl::StageInput(const Request& request, const Placement& placement, const Operation& operation) {
  for (std::size_t done = 0; done < request.input_bytes();) {
    const std::size_t piece = std::min(kPieceBytes, request.input_bytes() - done);
    request.CopyInput(done, piece, placement.input->data() + done);
    done += piece;
    operation.link->slot(operation.slot).staged_bytes.store(done, std::memory_order_release);
    const Error error = SendProgress(operation.link.get(), operation.slot, done == request.input_bytes());
    if (!error.ok()) return Lose(operation.link.get(), error);
  }
}

Expected<Operation> SessionImpl::SubmitPlaced(const Request& request, const Placement& placement,
                                              const std::shared_ptr<Link>& link, const Deadline& deadline) {
  auto taken = TakeSlot(link.get());
  if (!taken.ok()) {
    ReleasePlacement(placement);
    return NothingSubmitted(taken.error());
  }
  Operation operation;
  operation.link = link;
  operation.slot = taken.value();
  {
    const Lock lock(mutex_);
    link->owners[operation.slot].input = placement.input;
    link->owners[operation.slot].result = placement.result;
    link->owners[operation.slot].device = placement.device;
    if (placement.device) placement.device->number = ++device_operations_;
    operation.refusals_told = RefusalsTold(lock, *link, request);
    // A message may go beside an update that runs; any other operation comes after it.
    if (request.spec.kind != OpKind::kUpdateView && !IsMessage(request.spec.kind)) DropPendingUpdate(lock);
  }
  const bool is_on_device = placement.device && placement.device->input;
  const bool staged = placement.stages_input && (is_on_device || request.input_bytes() > kStagedAtOnceMax);
  if (placement.stages_input && !staged) {
    request.CopyInput(0, request.input_bytes(), placement.input->data());
  }
  if (Error error = SendSubmit(request, placement, operation, staged, deadline.Within(kSendPatience)); !error.ok()) {
    const bool is_over = error.code() == Code::kTimeout && deadline.HasPassed();
    if (is_over || error.code() == Code::kInterrupted) {
      error = Error(error.code(), error.text() + "; nothing was submitted: call again");
    } else {
      error = NothingSubmitted(SendFailed(link.get(), error, deadline));
    }
    const Lock lock(mutex_);
    if (error.code() == Code::kRejoined) untold_.reset(ChannelOf(request.spec));
    FreeSlot(lock, link.get(), operation.slot);
    return error;
  }
  operation.device = placement.device;
  operation.spec = request.spec;
  operation.output_count = request.output_count;
  operation.part = request.part;
  operation.output = request.output;
  operation.tensors = request.tensors;
  operation.copies_result = placement.copies_result;
  if (is_on_device) {
    CopyInput(request, placement.input, operation);
  } else if (staged) {
    StageInput(request, placement, operation);
  }
  return operation;
}

Expected<Operation> SessionImpl::Submit(Request request) {
  const Deadline deadline = Within(request.submit_timeout);
  if (Error error = CheckRequest(request); !error.ok()) return error;
  auto link = Enter(request.spec.channel, deadline);
  if (!link.ok()) return link.error();
  if (request.as_peer != 0 && request.as_peer != (*link)->membership().peer_id) {
    return Error(Code::kRejoined, "this peer is " + std::to_string((*link)->membership().peer_id) + ", not " +
                                      std::to_string(request.as_peer) +
                                      " any more: take the others' state, as a newcomer does, then submit again");
  }
  if (Error error = BindToWorld(&request); !error.ok()) return error;
  auto placement = Place(request);
  if (!placement.ok()) return NothingSubmitted(placement.error());
  return SubmitPlaced(request, placement.value(), *link, deadline);
}

Expected<Work> SessionImpl::Start(const Request& request) {
  auto operation = Submit(request);
  if (!operation.ok()) return operation.error();
  return Work(std::make_shared<WorkImpl>(WorkImpl{shared_from_this(), std::move(operation.value())}));
}

}  // namespace ringway::internal
