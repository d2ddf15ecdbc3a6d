// Scales what a test does: less with a sanitizer, which costs tenfold and looks for other faults than a test does, and
// less on a slow machine (RINGWAY_TEST_EFFORT, a percentage that tests/run.sh measures).
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>

namespace ringway {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

// The share of `whole` that this machine has time for, at least one. For what only repeats: seeds, seconds of chaos.
inline std::uint64_t AtEffort(std::uint64_t whole) {
  const char* const text = std::getenv("RINGWAY_TEST_EFFORT");
  const long percent = text == nullptr ? 100 : std::clamp(std::strtol(text, nullptr, 10), 1L, 100L);
  return std::max<std::uint64_t>(1, whole * static_cast<std::uint64_t>(percent) / 100);
}

// Returns how many turns of a sweep of `whole` are made.
inline std::uint64_t TurnsOf(std::uint64_t whole) { return AtEffort(kSanitized ? (whole + 9) / 10 : whole); }

}  // namespace ringway
