#include "daemon/buffers/staged_buffers.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "proto/check.h"

namespace ringway::buffers {

std::shared_ptr<StagedBuffers> StagedBuffers::Make(std::shared_ptr<OpBuffers> trainers, Sizes sizes,
                                                   const std::shared_ptr<MemoryShare>& share) {
  std::unique_ptr<const MemoryCharge> charge;
  if (share != nullptr) {
    if (!share->TryTake(MemoryUse::kResults, sizes.bytes())) return nullptr;
    charge = std::make_unique<const MemoryCharge>(share, MemoryUse::kResults, sizes.bytes());
  }
  return std::make_shared<StagedBuffers>(std::move(trainers), sizes, std::move(charge));
}

StagedBuffers::StagedBuffers(std::shared_ptr<OpBuffers> trainers, Sizes sizes,
                             std::unique_ptr<const MemoryCharge> charge)
    : trainers_(std::move(trainers)),
      sizes_(sizes),
      charge_(std::move(charge)),
      output_(std::make_unique_for_overwrite<std::byte[]>(sizes.output_bytes)),
      input_(sizes.input_bytes > 0 ? std::make_unique_for_overwrite<std::byte[]>(sizes.input_bytes) : nullptr) {}

std::uint64_t StagedBuffers::Stage(std::uint64_t bytes_max) {
  if (trainers_->can_stage()) return trainers_->Stage(bytes_max);
  if (!can_stage()) return 0;
  RINGWAY_CHECK(trainers_->input_ready() <= sizes_.input_bytes);
  const std::uint64_t bytes = std::min(bytes_max, trainers_->input_ready() - staged_);
  std::memcpy(input_.get() + staged_, trainers_->input() + staged_, bytes);
  staged_ += bytes;
  return bytes;
}

// The trainer's own are delivered when they hold all of it.
std::uint64_t StagedBuffers::Deliver(std::uint64_t bytes, std::uint64_t bytes_max) {
  RINGWAY_CHECK(bytes <= sizes_.output_bytes && bytes <= trainers_->output_bytes_max());
  const std::uint64_t now = std::min(bytes_max, bytes - copied_);
  if (now > 0) std::memcpy(trainers_->output() + copied_, output_.get() + copied_, now);
  copied_ += now;
  if (copied_ == bytes) (void)trainers_->Deliver(bytes, bytes_max - now);
  return now;
}

}  // namespace ringway::buffers
