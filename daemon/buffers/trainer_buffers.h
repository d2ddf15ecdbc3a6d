// A trainer's own memory as an operation's buffers: used in place, nothing is copied. A trainer that writes there
// before the operation is done is found out by transfer/buffer_guard.h.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "daemon/buffers/op_buffers.h"

namespace ringway::buffers {

class TrainerBuffers final : public OpBuffers {
 public:
  struct Places {
    const std::byte* input = nullptr;
    std::uint64_t input_bytes = 0;
    std::uint64_t input_ready = 0;  // at most input_bytes
    std::byte* output = nullptr;
    std::uint64_t output_bytes = 0;
    Keep keep = nullptr;  // what both of them lie in
  };

  TrainerBuffers() = default;
  explicit TrainerBuffers(Places places) : places_(std::move(places)) {}

  const std::byte* input() const override { return places_.input; }
  std::uint64_t input_ready() const override { return places_.input_ready; }
  bool Grow(std::uint64_t input_ready) override {
    const std::uint64_t before = places_.input_ready;
    places_.input_ready = std::clamp(input_ready, before, places_.input_bytes);
    return places_.input_ready > before;
  }
  bool can_stage() const override { return false; }
  std::uint64_t Stage(std::uint64_t /*bytes_max*/) override { return 0; }

  std::byte* output() const override { return places_.output; }
  std::uint64_t output_bytes_max() const override { return places_.output_bytes; }
  std::uint64_t final_upto() const override { return final_upto_; }
  std::uint64_t Deliver(std::uint64_t bytes, std::uint64_t /*bytes_max*/) override {
    final_upto_ = bytes;
    return 0;
  }

  bool trainer_writes_input() const override { return true; }
  bool trainer_writes_output() const override { return true; }

 private:
  Places places_;
  std::uint64_t final_upto_ = 0;
};

}  // namespace ringway::buffers
