#include "client/src/state/hashing.h"

#define XXH_INLINE_ALL  // nothing to link
#include <xxhash.h>

namespace ringway::internal {
namespace {

Hash ToHash(XXH128_hash_t hash) { return {hash.low64, hash.high64}; }

}  // namespace

struct Hasher::State {
  XXH3_state_t state;
};

Hash HashOf(const void* data, std::size_t bytes) { return ToHash(XXH3_128bits(data, bytes)); }

Hasher::Hasher() : state_(std::make_unique<State>()) { XXH3_128bits_reset(&state_->state); }
Hasher::~Hasher() = default;
void Hasher::Add(const void* data, std::size_t bytes) { XXH3_128bits_update(&state_->state, data, bytes); }
Hash Hasher::Result() const { return ToHash(XXH3_128bits_digest(&state_->state)); }

}  // namespace ringway::internal
