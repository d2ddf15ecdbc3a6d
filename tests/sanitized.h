// Whether this build has a sanitizer: it costs tenfold, and looks for other faults than a test does, so tests of pure
// arithmetic and sweeps do less then.
#pragma once

#include <cstdint>

namespace ringway {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

// How many turns of a sweep of `whole` are made.
constexpr std::uint64_t TurnsOf(std::uint64_t whole) { return kSanitized ? (whole + 9) / 10 : whole; }

}  // namespace ringway
