// Copies, in the daemon's memory, of the buffers of an operation: the output always, the input where it is asked for.
//
//   trainer's input --Stage--> input, and on to the others: the trainer may reuse its own once that is reported
//   output, which others may still need --Deliver--> trainer's output
//
// Charged to the session's share from Make until the last holder is gone, a frame on its way, too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "daemon/buffers/op_buffers.h"
#include "proto/memory_budget.h"

namespace ringway::buffers {

class StagedBuffers final : public OpBuffers {
 public:
  struct Sizes {
    std::uint64_t output_bytes = 0;
    std::uint64_t input_bytes = 0;  // 0: the trainer's input is used in place
    std::uint64_t bytes() const { return output_bytes + input_bytes; }
  };

  // Returns null if `share` has no room for it. A null share has no limit.
  static std::shared_ptr<StagedBuffers> Make(std::shared_ptr<OpBuffers> trainers, Sizes sizes,
                                             const std::shared_ptr<MemoryShare>& share);
  StagedBuffers(std::shared_ptr<OpBuffers> trainers, Sizes sizes, std::unique_ptr<const MemoryCharge> charge);

  const std::byte* input() const override { return input_ ? input_.get() : trainers_->input(); }
  std::uint64_t input_ready() const override { return input_ ? staged_ : trainers_->input_ready(); }
  bool Grow(std::uint64_t input_ready) override { return trainers_->Grow(input_ready); }
  bool can_stage() const override { return trainers_->can_stage() || (input_ && staged_ < trainers_->input_ready()); }
  std::uint64_t Stage(std::uint64_t bytes_max) override;

  std::byte* output() const override { return output_.get(); }
  std::uint64_t output_bytes_max() const override { return sizes_.output_bytes; }
  std::uint64_t final_upto() const override { return trainers_->final_upto(); }
  std::uint64_t Deliver(std::uint64_t bytes, std::uint64_t bytes_max) override;

  bool trainer_writes_input() const override { return !input_ && trainers_->trainer_writes_input(); }
  bool trainer_writes_output() const override { return false; }

 private:
  const std::shared_ptr<OpBuffers> trainers_;
  const Sizes sizes_;
  const std::unique_ptr<const MemoryCharge> charge_;  // null: nothing is charged
  const std::unique_ptr<std::byte[]> output_;
  const std::unique_ptr<std::byte[]> input_;
  std::uint64_t staged_ = 0;
  std::uint64_t copied_ = 0;  // of the result, into the trainer's output
};

}  // namespace ringway::buffers
