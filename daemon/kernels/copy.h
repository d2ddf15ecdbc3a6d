// A copy to memory that nobody here reads again. Never allocates, no state, any thread.
#pragma once

#include <cstddef>

namespace ringway::kernels {

// Copies past the caches where the processor can: what is in them stays, and the target is not read first. The bytes
// are visible to other threads as after any other store once this has returned. No overlap; any alignment.
void CopyPastCaches(void* dst, const void* src, std::size_t bytes);

}  // namespace ringway::kernels
