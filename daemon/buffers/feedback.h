// Error feedback: what encoding took from a rank's contributions is kept, by the name of a tensor, and added to its
// next contribution, so that sums over many operations lose nothing for good.
//
//   input + residual --Stage--> what the operation sums; what its rounding took, and each encoding, is noted
//   committed: the losses are the next residual          failed or retried: the residual stays what it was
//   committed without this input --Keep--> all of input + residual is the loss, where late inputs are kept; of what is
//   not finite, the residual alone
//
//   ResidualBook      the residuals of one membership. They end with it: whoever joins anew begins without.
//   FeedbackBuffers   the buffers of one operation with feedback. A trainer's input is not written to.
//
// Residuals and losses are f32, whatever the tensor's dtype: in f16 small gradients would be rounded away beside large
// residuals. Charged to the session's share: four bytes an element at rest; four more and the tensor's own bytes while
// an operation runs, and as long as its copies are kept for those who lack its result. Nothing is cleared or copied at
// once, however large a tensor is.
//
// Pure; one thread. Errors: kResourceExhausted, kInvalidArgument, with texts for the trainer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <utility>

#include "daemon/buffers/op_buffers.h"
#include "proto/memory_budget.h"
#include "proto/result.h"
#include "proto/segment_header.h"

namespace ringway::buffers {

// Memory that is charged while it is there; zero at first, page by page as it is used.
class ChargedBytes {
 public:
  static Result<std::shared_ptr<ChargedBytes>> Make(std::uint64_t bytes, const std::shared_ptr<MemoryShare>& share);
  // REQUIRES: there is so much memory.
  ChargedBytes(std::uint64_t bytes, std::unique_ptr<const MemoryCharge> charge);

  std::byte* data() const { return bytes_.get(); }
  float* floats() const { return reinterpret_cast<float*>(bytes_.get()); }
  std::uint64_t size() const { return size_; }

 private:
  struct Free {
    void operator()(std::byte* bytes) const { std::free(bytes); }
  };
  const std::unique_ptr<const MemoryCharge> charge_;  // null: nothing is charged
  const std::unique_ptr<std::byte[], Free> bytes_;
  const std::uint64_t size_;
};

class FeedbackBuffers final : public OpBuffers {
 public:
  struct Parts {
    std::shared_ptr<OpBuffers> trainers;
    std::shared_ptr<const ChargedBytes> residual;  // f32, an element for each of the input
    std::shared_ptr<ChargedBytes> sum;             // of the dtype
    std::shared_ptr<ChargedBytes> loss;            // f32
  };
  FeedbackBuffers(DType dtype, Parts parts) : dtype_(dtype), parts_(std::move(parts)) {}

  // Returns what encodings at this rank took from the sum. Stage begins it, the executor adds to it.
  const std::shared_ptr<ChargedBytes>& loss() const { return parts_.loss; }
  // Another attempt: stages again from the beginning, to the same sum.
  void Restart() { staged_ = 0; }
  // Returns whether all of the trainer's input is ready.
  bool is_whole() const { return stageable() >= parts_.sum->size(); }
  // The result came without this input, and all of what would have been summed is the loss. Begins anew at the first
  // call, whatever an attempt has noted. Returns the bytes that it went on, at most `bytes_max` and an element, as far
  // as the trainer's input is ready.
  std::uint64_t Keep(std::uint64_t bytes_max);
  bool is_kept() const { return keeps_ && staged_ >= parts_.sum->size(); }
  bool can_keep() const { return !keeps_ || stageable() > staged_; }
  // Releases the residual: nothing is staged any more.
  void Release() { parts_.residual = nullptr; }

  const std::byte* input() const override { return parts_.sum->data(); }
  std::uint64_t input_ready() const override { return staged_; }
  bool Grow(std::uint64_t input_ready) override { return parts_.trainers->Grow(input_ready); }
  bool can_stage() const override { return parts_.residual != nullptr && stageable() > staged_; }
  std::uint64_t Stage(std::uint64_t bytes_max) override;

  std::byte* output() const override { return parts_.trainers->output(); }
  std::uint64_t output_bytes_max() const override { return parts_.trainers->output_bytes_max(); }
  std::uint64_t final_upto() const override { return parts_.trainers->final_upto(); }
  std::uint64_t Deliver(std::uint64_t bytes, std::uint64_t bytes_max) override {
    return parts_.trainers->Deliver(bytes, bytes_max);
  }

  bool trainer_writes_input() const override { return false; }
  bool trainer_writes_output() const override { return parts_.trainers->trainer_writes_output(); }

 private:
  // Elements.
  struct Slice {
    std::uint64_t begin = 0;
    std::uint64_t count = 0;
  };

  // Bytes of the trainer's input that are ready, in whole elements.
  std::uint64_t stageable() const;
  // What Stage and Keep do next: at most `bytes_max`, or an element. REQUIRES: can_stage().
  Slice NextSlice(std::uint64_t bytes_max) const;

  const DType dtype_;
  Parts parts_;
  std::uint64_t staged_ = 0;
  bool keeps_ = false;
};

class ResidualBook {
 public:
  static constexpr std::size_t kNamesMax = 65536;

  // Begins an operation of `descriptor` under this name, over `trainers`' input; name 0: without feedback, and returns
  // null. Another number of elements or dtype than before begins without a residual. Returns kInvalidArgument if an
  // operation with this name is under way. An error leaves the name's residual as it was.
  Result<std::shared_ptr<FeedbackBuffers>> Begin(std::uint64_t name, const Descriptor& descriptor,
                                                 std::shared_ptr<OpBuffers> trainers,
                                                 const std::shared_ptr<MemoryShare>& share);
  // It has its outcome, and stages no more. `committed`: with this input; one that is kept counts, too.
  // REQUIRES: begun.
  void End(std::uint64_t name, FeedbackBuffers& operation, bool committed);

  std::size_t size() const { return residuals_.size(); }

 private:
  struct Residual {
    DType dtype = DType::kF32;
    std::shared_ptr<ChargedBytes> values;
    bool in_use = false;
  };

  std::map<std::uint64_t, Residual> residuals_;
};

}  // namespace ringway::buffers
