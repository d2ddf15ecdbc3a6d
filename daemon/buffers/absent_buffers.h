// The buffers of an operation that goes on before its trainer has submitted it: a result in the daemon's memory, and no
// input. When the trainer does, its own buffers get the result.
//
//   Make --the operation runs, others may fetch the result--> Attach(trainer's) --Deliver--> its output
//
// Charged to the session's share from Make until the last holder is gone, a frame on its way, too.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>

#include "daemon/buffers/op_buffers.h"
#include "proto/check.h"
#include "proto/memory_budget.h"

namespace ringway::buffers {

class AbsentBuffers final : public OpBuffers {
 public:
  // Returns null if `share` has no room for it. A null share has no limit.
  static std::shared_ptr<AbsentBuffers> Make(std::uint64_t output_bytes, const std::shared_ptr<MemoryShare>& share) {
    std::unique_ptr<const MemoryCharge> charge;
    if (share != nullptr) {
      if (!share->TryTake(MemoryUse::kResults, output_bytes)) return nullptr;
      charge = std::make_unique<const MemoryCharge>(share, MemoryUse::kResults, output_bytes);
    }
    return std::make_shared<AbsentBuffers>(output_bytes, std::move(charge));
  }
  AbsentBuffers(std::uint64_t output_bytes, std::unique_ptr<const MemoryCharge> charge)
      : charge_(std::move(charge)),
        output_(std::make_unique_for_overwrite<std::byte[]>(output_bytes)),
        output_bytes_(output_bytes) {}

  // The trainer's, whose output has room for the result. REQUIRES: once.
  void Attach(std::shared_ptr<OpBuffers> trainers) {
    RINGWAY_CHECK(trainers_ == nullptr && trainers->output_bytes_max() >= output_bytes_);
    trainers_ = std::move(trainers);
  }

  const std::byte* input() const override { return nullptr; }
  std::uint64_t input_ready() const override { return std::numeric_limits<std::uint64_t>::max(); }
  bool Grow(std::uint64_t input_ready) override { return trainers_ != nullptr && trainers_->Grow(input_ready); }
  bool can_stage() const override { return false; }
  std::uint64_t Stage(std::uint64_t /*bytes_max*/) override { return 0; }

  std::byte* output() const override { return output_.get(); }
  std::uint64_t output_bytes_max() const override { return output_bytes_; }
  std::uint64_t final_upto() const override { return trainers_ == nullptr ? 0 : trainers_->final_upto(); }
  std::uint64_t Deliver(std::uint64_t bytes, std::uint64_t bytes_max) override {
    RINGWAY_CHECK(trainers_ != nullptr && bytes <= output_bytes_);
    const std::uint64_t now = std::min(bytes_max, bytes - copied_);
    if (now > 0) std::memcpy(trainers_->output() + copied_, output_.get() + copied_, now);
    copied_ += now;
    if (copied_ == bytes) (void)trainers_->Deliver(bytes, bytes_max - now);
    return now;
  }

  bool trainer_writes_input() const override { return false; }
  bool trainer_writes_output() const override { return false; }

 private:
  const std::unique_ptr<const MemoryCharge> charge_;  // null: nothing is charged
  const std::unique_ptr<std::byte[]> output_;
  const std::uint64_t output_bytes_;
  std::shared_ptr<OpBuffers> trainers_;  // null: not submitted
  std::uint64_t copied_ = 0;             // of the result, into the trainer's output
};

}  // namespace ringway::buffers
