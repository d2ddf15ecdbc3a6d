// XXH3-64, the checksum of segment headers and payloads and of models in examples.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ringway {

// The widest implementation that this processor has is chosen at the first call; all give the same value. Never
// allocates.
std::uint64_t Hash64(std::span<const std::byte> bytes);

}  // namespace ringway
