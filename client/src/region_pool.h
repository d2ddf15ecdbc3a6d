// The regions of one session: which are registered with the daemon, who uses them, which can be reused.
//
//   Create -> in use (users > 0) -> free -> in use ... -> evicted
//
// A region is used by its Buffer and by every operation that reads or writes it; it becomes free when the last of them
// releases it, and serves the next request of its size class. Regions registers and unregisters them.
//
// Not thread-safe: the session's mutex guards it.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <ringway/ringway.hpp>

#include "client/src/fork_guard.h"
#include "client/src/shared_memory.h"
#include "proto/device/library.h"
#include "proto/local_abi.h"

namespace ringway::internal {

struct Region {
  std::uint32_t id = 0;
  SharedMemory memory;
  std::uint32_t users = 0;
  std::size_t buffer_bytes = 0;     // what a Buffer asked for; 0: no Buffer holds it
  std::uint64_t taken_as = 0;       // the number of the newest request that it served
  std::uint64_t registered_on = 0;  // the serial of the newest Link whose daemon knows it
  device::Library* pinned_by = nullptr;
  std::int32_t pinned_for = 0;  // the device
  std::uint64_t generation = ForkGeneration();

  std::byte* data() const { return memory.data(); }
};

// Pins the region once, for whichever device comes first.
inline device::Status PinRegion(device::Library* library, std::int32_t device, Region* region) {
  if (region->pinned_by != nullptr) return {};
  device::Status status = library->Pin(device, region->data(), region->memory.bytes());
  if (!status.ok()) return status;
  region->pinned_by = library;
  region->pinned_for = device;
  return {};
}

// Pinned regions end on a thread of the device library, which may have to wait for streams. Those of the parent are
// left alone: a forked child must not call its library.
struct EndRegion {
  static inline std::atomic<std::size_t> pinned_bytes = 0;  // in regions of this process that have yet to end

  void operator()(Region* region) const {
    if (region->pinned_by == nullptr) {
      delete region;
      return;
    }
    if (region->generation != ForkGeneration()) return;
    const auto end = [](void* ended) {
      auto* const last = static_cast<Region*>(ended);
      pinned_bytes -= last->memory.bytes();
      delete last;
    };
    pinned_bytes += region->memory.bytes();
    region->pinned_by->UnpinLater(region->pinned_for, region->data(), end, region);
  }
};

// REQUIRES: `memory` is inside the region.
inline std::size_t OffsetIn(const Region& region, const void* memory) {
  return static_cast<std::size_t>(static_cast<const std::byte*>(memory) - region.data());
}

class RegionPool {
 public:
  static constexpr std::size_t kFreeBytesMax = std::size_t{2} << 30;
  static constexpr std::size_t kFreeCountMax = abi::kRegionCountMax / 2;  // each takes a descriptor
  static constexpr std::uint32_t kNoId = abi::kRegionCountMax;
  // Regions that served one of this many newest requests may exceed FreeBytesMax. The next step of a training wants the
  // same again, and zeroing, mapping and unmapping its pages takes longer than the operation.
  static constexpr std::uint64_t kKeptRequests = 64;

  // Size of the region for a request: at most an eighth more, so that requests of similar size reuse regions.
  static std::size_t SizeClass(std::size_t bytes);

  // Returns a free region of this class, now with one user; null if there is none. A Buffer is never pinned: a driver
  // would go on with the old pages once it is unshared.
  Region* TakeFree(std::size_t class_bytes, bool for_buffer);

  // Returns an id for a new region; kNoId if all are taken.
  std::uint32_t ReserveId();
  void ReturnId(std::uint32_t id) { id_taken_[id] = false; }

  // The new region has one user. REQUIRES: `id` is reserved.
  Region* Add(std::uint32_t id, SharedMemory memory);

  void AddUser(Region* region) { ++region->users; }
  // An unshared region is not reused.
  void Release(Region* region);

  // Returns the Buffer that holds `address`, or null.
  Region* FindBuffer(const void* address) const;

  // Returns the least recently freed region. Null if there is none, or if it is pinned and more than FreeBytesMax has
  // yet to be unpinned. Evict removes and unmaps it.
  Region* OldestFree() const {
    if (free_.empty()) return nullptr;
    const bool waits = free_.front()->pinned_by != nullptr && EndRegion::pinned_bytes > FreeBytesMax(bytes_max_);
    return waits ? nullptr : free_.front();
  }
  void Evict(Region* region);

  // The daemon's limit for all regions together; 0: none.
  void SetBytesMax(std::size_t bytes) { bytes_max_ = bytes; }
  std::size_t bytes_max() const { return bytes_max_; }
  // Returns whether another region of this size would exceed the limit.
  bool Exceeds(std::size_t more_bytes) const { return bytes_max_ > 0 && bytes_ + more_bytes > bytes_max_; }
  // Returns whether one is spare: there is room for it beside all regions, and beside the most that were in use at once
  // since ForgetPeak.
  bool IsSpare(std::size_t more_bytes) const {
    return bytes_max_ == 0 || std::max(bytes_, peak_bytes_) + more_bytes <= bytes_max_;
  }
  void ForgetPeak() { peak_bytes_ = bytes_ - free_bytes_; }
  // Returns how many more regions of this class the limit allows.
  std::size_t RoomFor(std::size_t class_bytes) const {
    if (bytes_max_ == 0) return abi::kRegionCountMax;
    const std::size_t in_use = bytes_ - free_bytes_;
    return in_use < bytes_max_ ? (bytes_max_ - in_use) / class_bytes : 0;
  }
  // Bounds the free regions while the oldest of them served a recent request: FreeBytesMax, plus an input and a result
  // as large as the largest of them, so that its regions stay for the next operation; but at most half of the
  // limit, since other sessions of the daemon lack what an idle one keeps.
  static std::size_t KeptBytesMax(std::size_t bytes_max, std::size_t largest) {
    const std::size_t kept = FreeBytesMax(bytes_max) + 2 * largest;
    return bytes_max > 0 ? std::min(kept, bytes_max / 2) : kept;
  }
  // Returns whether to evict: an unshared region is free, or free regions exceed kFreeCountMax, KeptBytesMax, or, if
  // the oldest serves no requests any more, FreeBytesMax.
  bool HasTooMuchFree() const;

 private:
  void CountPeak() { peak_bytes_ = std::max(peak_bytes_, bytes_ - free_bytes_); }
  static std::size_t FreeBytesMax(std::size_t bytes_max) {
    return bytes_max > 0 ? std::min(kFreeBytesMax, bytes_max / 4) : kFreeBytesMax;
  }

  std::map<std::uintptr_t, std::unique_ptr<Region, EndRegion>> regions_;  // by address
  std::deque<Region*> free_;                                              // oldest first
  std::size_t bytes_ = 0;
  std::size_t free_bytes_ = 0;
  std::size_t peak_bytes_ = 0;  // in use
  std::size_t bytes_max_ = 0;
  std::uint64_t requests_ = 0;
  std::array<bool, abi::kRegionCountMax> id_taken_{};
};

}  // namespace ringway::internal
