#include "client/src/region_pool.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace ringway::internal {
namespace {

constexpr std::size_t kSmallestBytes = 64 * 1024;

std::uintptr_t AddressOf(const void* address) { return reinterpret_cast<std::uintptr_t>(address); }

}  // namespace

std::size_t RegionPool::SizeClass(std::size_t bytes) {
  if (bytes <= kSmallestBytes) return kSmallestBytes;
  const std::size_t step = std::max<std::size_t>(std::bit_floor(bytes - 1) / 8, 1);
  return (bytes + step - 1) / step * step;
}

Region* RegionPool::TakeFree(std::size_t class_bytes, bool for_buffer) {
  // The newest is the most likely to be cached.
  const auto found = std::find_if(free_.rbegin(), free_.rend(), [&](const Region* region) {
    const bool is_fit = !for_buffer || region->pinned_by == nullptr;
    return is_fit && region->memory.bytes() == class_bytes && region->memory.shared();
  });
  if (found == free_.rend()) return nullptr;
  Region* const region = *found;
  free_.erase(std::next(found).base());
  free_bytes_ -= region->memory.bytes();
  CountPeak();
  region->users = 1;
  region->taken_as = ++requests_;
  return region;
}

std::uint32_t RegionPool::ReserveId() {
  const auto free_id = std::find(id_taken_.begin(), id_taken_.end(), false);
  if (free_id == id_taken_.end()) return kNoId;
  *free_id = true;
  return static_cast<std::uint32_t>(free_id - id_taken_.begin());
}

Region* RegionPool::Add(std::uint32_t id, SharedMemory memory) {
  std::unique_ptr<Region, EndRegion> region(new Region);
  region->id = id;
  region->memory = std::move(memory);
  region->users = 1;
  region->taken_as = ++requests_;
  bytes_ += region->memory.bytes();
  CountPeak();
  Region* const added = region.get();
  regions_[AddressOf(added->data())] = std::move(region);
  return added;
}

void RegionPool::Release(Region* region) {
  if (--region->users > 0) return;
  region->buffer_bytes = 0;
  // Unshared regions are evicted first.
  free_.insert(region->memory.shared() ? free_.end() : free_.begin(), region);
  free_bytes_ += region->memory.bytes();
}

Region* RegionPool::FindBuffer(const void* address) const {
  const auto after = regions_.upper_bound(AddressOf(address));
  if (after == regions_.begin()) return nullptr;
  Region* const region = std::prev(after)->second.get();
  const bool inside = AddressOf(address) < AddressOf(region->data()) + region->buffer_bytes;
  return inside ? region : nullptr;
}

bool RegionPool::HasTooMuchFree() const {
  if (free_.empty()) return false;
  const Region& oldest = *free_.front();
  if (free_.size() > kFreeCountMax || !oldest.memory.shared()) return true;
  if (free_bytes_ <= FreeBytesMax(bytes_max_)) return false;
  if (requests_ - oldest.taken_as >= kKeptRequests) return true;
  std::size_t largest = 0;
  for (const Region* const region : free_) largest = std::max(largest, region->memory.bytes());
  return free_bytes_ > KeptBytesMax(bytes_max_, largest);
}

void RegionPool::Evict(Region* region) {
  std::erase(free_, region);
  free_bytes_ -= region->memory.bytes();
  bytes_ -= region->memory.bytes();
  ReturnId(region->id);
  regions_.erase(AddressOf(region->data()));
}

}  // namespace ringway::internal
