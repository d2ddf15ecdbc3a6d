#include "client/src/state/hashing.h"

#define XXH_INLINE_ALL  // nothing to link
#include <xxhash.h>

namespace ringway::internal {
namespace {

static_assert(sizeof(XXH3_state_t) <= 640 && alignof(XXH3_state_t) <= 64);

XXH3_state_t* StateIn(std::byte* memory) { return reinterpret_cast<XXH3_state_t*>(memory); }
const XXH3_state_t* StateIn(const std::byte* memory) { return reinterpret_cast<const XXH3_state_t*>(memory); }

Hash ToHash(XXH128_hash_t hash) { return {hash.low64, hash.high64}; }

}  // namespace

Hash HashOf(const void* data, std::size_t bytes) { return ToHash(XXH3_128bits(data, bytes)); }

Hasher::Hasher() { XXH3_128bits_reset(StateIn(state_.data())); }
void Hasher::Add(const void* data, std::size_t bytes) { XXH3_128bits_update(StateIn(state_.data()), data, bytes); }
Hash Hasher::Result() const { return ToHash(XXH3_128bits_digest(StateIn(state_.data()))); }

}  // namespace ringway::internal
