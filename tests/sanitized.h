// Whether this build has a sanitizer: it costs tenfold, and looks for other faults than a test does, so tests of pure
// arithmetic and sweeps do less then.
#pragma once

namespace ringway {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace ringway
