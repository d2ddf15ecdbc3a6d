// Pauses that differ from one process to the next, so that those that were put off at the same time come back at
// different ones.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <span>

#include "proto/clock.h"
#include "proto/hash.h"

namespace ringway {

// At least 0, less than `most`; the same for the same `who` and `turn`. REQUIRES: most > 0.
inline Duration Jitter(std::uint64_t who, std::uint64_t turn, Duration most) {
  const std::array<std::uint64_t, 2> seed = {who, turn};
  return Duration(
      static_cast<std::int64_t>(Hash64(std::as_bytes(std::span(seed))) % static_cast<std::uint64_t>(most.count())));
}

}  // namespace ringway
