// The 128-bit hash of shared states: XXH3, the same on all ranks. Finds accidents; who may join a group is trusted.
#pragma once

#include <array>
#include <cstddef>

#include "client/src/state/choose.h"

namespace ringway::internal {

Hash HashOf(const void* data, std::size_t bytes);

// The same, of what is added one after the other.
class Hasher {
 public:
  Hasher();
  ~Hasher() = default;
  Hasher(const Hasher&) = delete;
  Hasher& operator=(const Hasher&) = delete;
  void Add(const void* data, std::size_t bytes);
  Hash Result() const;

 private:
  alignas(64) std::array<std::byte, 640> state_;  // of XXH3, whose header nobody else needs
};

}  // namespace ringway::internal
