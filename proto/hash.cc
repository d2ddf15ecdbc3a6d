#include "proto/hash.h"

// On x86-64 the dispatching entry points of libxxhash pick SSE2, AVX2 or AVX-512 at run time. Debian's libxxhash.a
// lacks them.
#if defined(__x86_64__) && !defined(RINGWAY_STATIC)
#include <xxh_x86dispatch.h>
#else
#include <xxhash.h>
#endif

namespace ringway {

std::uint64_t Hash64(std::span<const std::byte> bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

}  // namespace ringway
