#include "client/src/regions.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>

namespace ringway::internal {
namespace {

Status RefuseDeviceMemory(const TensorList& list, std::size_t element_bytes) {
  for (const Tensor& tensor : list.tensors()) {
    const std::size_t bytes = tensor.count * element_bytes;
    const auto device = FindDeviceMemory({tensor.input, bytes}, {tensor.output, bytes});
    if (!device.ok()) return device.status();
    if (*device != nullptr) {
      return Status(Code::kNotSupported, "a list of tensors is in host memory: reduce those of a device one by one");
    }
  }
  return {};
}

}  // namespace

Result<Region*> Regions::FindZeroCopy(const Lock& /*lock*/, const Memory& memory) const {
  Region* const region = pool_.FindBuffer(memory.data);
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

Status Regions::PlaceMemory(const Memory& memory, const Region* taken, BufferPlace* place) {
  {
    const Lock lock = memberships_.Acquire();
    const auto found = FindZeroCopy(lock, memory);
    if (!found.ok()) return found.status();
    if (Region* const region = found.value(); region != nullptr && region != taken) {
      pool_.AddUser(region);
      *place = {region, OffsetIn(*region, memory.data), false};
      return {};
    }
  }
  const auto region = Acquire(memory.bytes, RegionUse::kStaging);
  if (!region.ok()) return region.status();
  *place = {region.value(), 0, true};
  if (!memory.device) return {};
  return BeforeSubmission(PinRegion(memory.library, *memory.device, region.value()));
}

Result<Placement> Regions::Place(const Request& request) {
  Placement placement;
  if (request.tensors != nullptr) {
    if (Status error = RefuseDeviceMemory(*request.tensors, SizeOf(request.spec.dtype)); !error.ok()) return error;
  } else if (request.layout.input_count + request.layout.output_count > 0) {
    auto device = FindDeviceMemory({request.input, request.input_bytes()}, {request.output, request.output_bytes()});
    if (!device.ok()) return device.status();
    placement.device = std::move(device.value());
  }
  const std::size_t element_bytes = SizeOf(request.spec.dtype);
  Memory input{"input", request.input, request.input_bytes(), element_bytes};
  Memory output{"output", request.output, request.output_bytes(), element_bytes};
  if (DevicePart* const device = placement.device.get()) {
    const std::int32_t marked = device->input ? *device->input : *device->output;
    const auto status = device->library->MarkStream(marked, request.stream, &device->submitted);
    if (!status.ok()) return BeforeSubmission(status);
    input.library = output.library = device->library;
    input.device = device->input;
    output.device = device->output;
  }
  Status error = input.bytes > 0 ? PlaceMemory(input, nullptr, &placement.input) : Status();
  if (error.ok() && output.bytes > 0) error = PlaceMemory(output, placement.input.region, &placement.result);
  if (error.ok()) return placement;
  const Lock lock = memberships_.Acquire();
  ReleaseSlot(lock, memberships_.link(lock).get(), placement, false);
  return error;
}

Result<Region*> Regions::Acquire(std::size_t bytes, RegionUse use) {
  const std::size_t class_bytes = RegionPool::SizeClass(bytes);
  {
    const Lock lock = memberships_.Acquire();
    // Once the session has ended, operations that still run may use regions that count as free.
    if (!memberships_.end(lock).ok()) return memberships_.end(lock);
    if (use == RegionUse::kSpare && !pool_.IsSpare(class_bytes)) {
      return Status(Code::kResourceExhausted, std::to_string(class_bytes) + " bytes are not spare");
    }
    if (Region* const region = pool_.TakeFree(class_bytes, use != RegionUse::kStaging)) return region;
  }
  return Create(class_bytes, use);
}

Result<Region*> Regions::Create(std::size_t class_bytes, RegionUse use) {
  std::uint32_t id = RegionPool::kNoId;
  {
    const Lock lock = memberships_.Acquire();
    if (pool_.bytes_max() > 0 && class_bytes > pool_.bytes_max()) {
      return Status(Code::kResourceExhausted,
                    std::to_string(class_bytes) + " bytes do not fit: the daemon takes at most " +
                        std::to_string(pool_.bytes_max()) +
                        " of a session, half of its --memory-max; use less, or start ringwayd with more");
    }
    while (pool_.Exceeds(class_bytes) && EvictOldest(lock)) continue;
    id = pool_.ReserveId();
    if (id == RegionPool::kNoId && EvictOldest(lock)) id = pool_.ReserveId();
  }
  if (id == RegionPool::kNoId) {
    return Status(Code::kResourceExhausted,
                  std::to_string(abi::kRegionCountMax) + " regions are in use; free Buffers or use fewer, larger ones");
  }
  auto memory = SharedMemory::Create(class_bytes);
  const bool evicts = use != RegionUse::kSpare;
  Lock lock = memberships_.Acquire();
  // Evicted memory is available only when the daemon has unmapped it, too.
  constexpr int kTriesMax = 20;
  bool evicted = false;
  for (int tries = 0; !memory.ok() && evicts && tries < kTriesMax;) {
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
  return memory.status();
}

Status Regions::Register(Link* link, Region* region, const Deadline& deadline) {
  const std::lock_guard<std::mutex> one_at_a_time(registering_);
  if (region->registered_on >= link->serial) return {};
  auto packet = MakePacket<abi::RegisterRegion>(abi::PacketType::kRegisterRegion);
  packet.region_id = region->id;
  packet.bytes = region->memory.bytes();
  Status sent = link->socket.Send(packet, deadline, region->memory.descriptor());
  if (!sent.ok()) return sent;
  region->registered_on = link->serial;
  return {};
}

// Sends under the lock, so that no other thread registers the id again before the daemon learns of its end.
bool Regions::Unregister(const Lock& /*lock*/, Link* link, Region* region) {
  if (!link->end.ok() || region->registered_on != link->serial) return true;
  auto packet = MakePacket<abi::UnregisterRegion>(abi::PacketType::kUnregisterRegion);
  packet.region_id = region->id;
  if (!link->socket.Send(packet, Deadline(Milliseconds(0))).ok()) return false;
  region->registered_on = 0;
  return true;
}

// The region stays in the pool until a later call if the socket is full.
bool Regions::EvictOldest(const Lock& lock) {
  Region* const region = pool_.OldestFree();
  if (region == nullptr || !Unregister(lock, memberships_.link(lock).get(), region)) return false;
  pool_.Evict(region);
  return true;
}

void Regions::Trim(const Lock& lock) {
  while (pool_.HasTooMuchFree() && EvictOldest(lock)) continue;
}

void Regions::ReleaseBuffer(Region* region) {
  if (memberships_.Forked()) return;
  const Lock lock = memberships_.Acquire();
  region->buffer_bytes = 0;
  Release(lock, region);
}

void Regions::Release(const Lock& lock, Region* region) {
  pool_.Release(region);
  Trim(lock);
}

void Regions::ReleaseSlot(const Lock& lock, Link* link, const Placement& placement, bool lacks_memory) {
  for (Region* const region : placement.regions()) {
    if (region == nullptr) continue;
    // The next use registers the region anew. The last user unregisters it, for another thread may be about to submit
    // with the id.
    const std::uint32_t last = region->buffer_bytes > 0 ? 2 : 1;
    if (lacks_memory && region->users == last) (void)Unregister(lock, link, region);
    pool_.Release(region);
  }
  while (lacks_memory && EvictOldest(lock)) continue;  // makes room for the next attempt
  Trim(lock);
}

void Regions::ForgetPeak() {
  const Lock lock = memberships_.Acquire();
  pool_.ForgetPeak();
}

std::size_t Regions::RoomFor(std::size_t bytes) {
  const Lock lock = memberships_.Acquire();
  return pool_.RoomFor(RegionPool::SizeClass(bytes));
}

}  // namespace ringway::internal
