// The operation slots of one membership: which are taken, with which regions.
//
//   idle -> busy -> (detached ->) idle
//
// A busy slot belongs to an Operation, whose owner frees it after the outcome. A detached one has lost its owner and is
// reclaimed by a later call once the daemon has finished with it; until then its regions stay reserved. Buffers among
// them are unshared: the daemon keeps the bytes as they were, whatever the trainer writes afterwards. They stay
// unshared for life, because another thread may be writing to another part of them, and are refused to later
// operations, which would not see what a device writes to pages pinned before.
//
// Threads: the session's mutex guards everything but the slots in the page, which the daemon shares (see local_abi.h).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <ringway/ringway.hpp>

#include "client/src/device_part.h"
#include "client/src/region_pool.h"
#include "proto/local_abi.h"

namespace ringway::internal {

enum class SlotUse { kIdle, kBusy, kDetached };

// Where one of an operation's buffers is.
struct BufferPlace {
  Region* region = nullptr;  // null: the buffer is empty
  std::uint64_t offset = 0;
  bool is_staged = false;  // the trainer's memory is elsewhere
};

struct Placement {
  BufferPlace input;
  BufferPlace result;
  std::shared_ptr<DevicePart> device;

  std::array<Region*, 2> regions() const { return {input.region, result.region}; }
};

struct SlotOwner {
  SlotUse use = SlotUse::kIdle;
  Placement placement;
};

class Slots {
 public:
  Slots() = default;
  // `slots`: kSlotCount of them, in the page, which outlives this.
  explicit Slots(abi::Slot* slots) : slots_(slots) {}

  abi::Slot& operator[](std::uint32_t index) const { return slots_[index]; }
  SlotOwner& owner(std::uint32_t index) { return owners_[index]; }

  // Returns an idle slot, now busy. kResourceExhausted if there is none.
  Result<std::uint32_t> Take();
  // Makes the slot idle and returns the placement, whose regions the caller releases.
  Placement Free(std::uint32_t index);

  bool IsDone(std::uint32_t index) const {
    return slots_[index].state.load(std::memory_order_acquire) == abi::SlotState::kDone;
  }
  // Returns whether the daemon refused the submission, which then takes no sequence number. REQUIRES: IsDone.
  bool IsRefused(std::uint32_t index) const { return slots_[index].outcome.refused != 0; }
  // Returns whether the daemon refused the submission for lack of memory.
  bool LacksMemory(std::uint32_t index) const;
  bool AreIdle() const { return CountOf(SlotUse::kIdle) == abi::kSlotCount; }
  bool HasDetached() const { return CountOf(SlotUse::kDetached) > 0; }

  // Counts a refusal that the trainer has read. The daemon compares the counts with its own (abi::Submit).
  void CountRefusal(std::uint32_t channel) { ++refusals_read_.at(channel); }
  // The refusals that have been read, of the spec's channel; for an UpdateView of all.
  std::uint64_t RefusalsRead(const abi::OpSpec& spec) const;

  // Unshares the Buffers of an unfinished operation. Returns false if the system refuses.
  bool Unshare(std::uint32_t index);
  void UnshareAll();

 private:
  std::uint32_t CountOf(SlotUse use) const;

  abi::Slot* slots_ = nullptr;
  std::array<SlotOwner, abi::kSlotCount> owners_;
  std::uint32_t next_ = 0;
  std::array<std::uint64_t, abi::kChannelCountMax> refusals_read_{};  // by channel
};

}  // namespace ringway::internal
