#include "client/src/slots.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

namespace ringway::internal {

Result<std::uint32_t> Slots::Take() {
  for (std::uint32_t i = 0; i < abi::kSlotCount; ++i) {
    const std::uint32_t index = (next_ + i) % abi::kSlotCount;
    if (owners_[index].use != SlotUse::kIdle) continue;
    owners_[index].use = SlotUse::kBusy;
    next_ = index + 1;
    return index;
  }
  return Status(Code::kResourceExhausted,
                std::to_string(abi::kSlotCount) + " operations are in flight; wait for some of them first");
}

Placement Slots::Free(std::uint32_t index) {
  Placement placement = std::exchange(owners_[index], SlotOwner()).placement;
  if (placement.device) placement.device->has_slot = false;
  slots_[index].state.store(abi::SlotState::kFree, std::memory_order_relaxed);
  return placement;
}

bool Slots::LacksMemory(std::uint32_t index) const {
  return IsDone(index) && IsRefused(index) && slots_[index].outcome.code == Code::kResourceExhausted;
}

std::uint64_t Slots::RefusalsRead(const abi::OpSpec& spec) const {
  if (spec.kind != OpKind::kUpdateView) return refusals_read_[spec.channel];
  return std::accumulate(refusals_read_.begin(), refusals_read_.end(), std::uint64_t{0});
}

bool Slots::Unshare(std::uint32_t index) {
  const SlotOwner& owner = owners_[index];
  if (owner.use == SlotUse::kIdle || IsDone(index)) return true;
  bool done = true;
  for (Region* const region : owner.placement.regions()) {
    if (region != nullptr && region->buffer_bytes > 0) done = region->memory.Unshare() && done;
  }
  return done;
}

void Slots::UnshareAll() {
  for (std::uint32_t index = 0; index < abi::kSlotCount; ++index) (void)Unshare(index);
}

std::uint32_t Slots::CountOf(SlotUse use) const {
  const auto is_such = [use](const SlotOwner& owner) { return owner.use == use; };
  return static_cast<std::uint32_t>(std::count_if(owners_.begin(), owners_.end(), is_such));
}

}  // namespace ringway::internal
