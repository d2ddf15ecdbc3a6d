#include "proto/hash.h"

// The dispatching entry points of libxxhash pick SSE2, AVX2 or AVX-512 at run time.
#include <xxh_x86dispatch.h>

namespace ringway {

std::uint64_t Hash64(std::span<const std::byte> bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

}  // namespace ringway
