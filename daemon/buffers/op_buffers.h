// The buffers of one operation: where it reads its input and writes its result. Who computes and sends works on this
// interface, whatever memory is behind it:
//
//   TrainerBuffers (trainer_buffers.h)  the trainer's own memory, shared with the daemon: used in place
//   StagedBuffers (staged_buffers.h)    the daemon's copies of another one's, made and delivered in slices
//
//   input   [0, input_ready()) holds the input. Only grows: by Grow as the trainer fills it, by Stage as it is copied
//   output  partial values, then the result. The trainer may read [0, final_upto()) of it; Deliver moves that on
//
// Ownership: shared; frames that are on their way hold it, so their memory outlives the operation. Thread: one, for its
// destruction, too. Bytes everywhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace ringway::buffers {

// Holds whatever backs a pointer. The only shared ownership on the data path: frames outlive operations.
using Keep = std::shared_ptr<const void>;

class OpBuffers {
 public:
  virtual ~OpBuffers() = default;
  OpBuffers(const OpBuffers&) = delete;
  OpBuffers& operator=(const OpBuffers&) = delete;

  // ---- input
  virtual const std::byte* input() const = 0;
  virtual std::uint64_t input_ready() const = 0;
  // The trainer has filled it up to here. Returns false if that is no progress.
  [[nodiscard]] virtual bool Grow(std::uint64_t input_ready) = 0;
  // Returns whether Stage would make progress.
  virtual bool can_stage() const = 0;
  // Copies on, at most `bytes_max`. Returns the bytes copied.
  virtual std::uint64_t Stage(std::uint64_t bytes_max) = 0;

  // ---- output
  virtual std::byte* output() const = 0;
  virtual std::uint64_t output_bytes_max() const = 0;
  virtual std::uint64_t final_upto() const = 0;
  // Delivers a result of `bytes`, copying at most `bytes_max`. Returns the bytes copied. REQUIRES: output() holds it.
  virtual std::uint64_t Deliver(std::uint64_t bytes, std::uint64_t bytes_max) = 0;

  // ---- whether a trainer can write to what is used
  virtual bool trainer_writes_input() const = 0;
  virtual bool trainer_writes_output() const = 0;

 protected:
  OpBuffers() = default;
};

}  // namespace ringway::buffers
