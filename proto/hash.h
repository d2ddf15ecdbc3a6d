// XXH3-64, the checksum of segment headers and payloads and of models in examples.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ringway {

// Uses the widest instruction set of this CPU, chosen at the first call; all return the same value. Never allocates.
std::uint64_t Hash64(std::span<const std::byte> bytes);

}  // namespace ringway
