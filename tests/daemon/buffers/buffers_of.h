// Plain memory as a trainer's buffers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "daemon/buffers/trainer_buffers.h"

namespace ringway::buffers {

// `bytes` of both, which outlive what is returned. All of the input is ready unless `ready` says how much.
inline std::shared_ptr<TrainerBuffers> BuffersOf(const std::vector<std::byte>& input, std::vector<std::byte>& output,
                                                 std::uint64_t bytes, std::optional<std::uint64_t> ready = {}) {
  return std::make_shared<TrainerBuffers>(TrainerBuffers::Places{.input = input.data(),
                                                                 .input_bytes = bytes,
                                                                 .input_ready = ready.value_or(bytes),
                                                                 .output = output.data(),
                                                                 .output_bytes = bytes});
}

}  // namespace ringway::buffers
