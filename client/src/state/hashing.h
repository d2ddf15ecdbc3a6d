// The 128-bit hash of shared states: XXH3, the same on all ranks. It detects accidents; ranks of a group are trusted.
#pragma once

#include <array>
#include <cstddef>

#include "client/src/state/choose.h"

namespace ringway::internal {

Hash HashOf(const void* data, std::size_t bytes);

// The same hash, of bytes that are added one after the other.
class Hasher {
 public:
  Hasher();
  ~Hasher() = default;
  Hasher(const Hasher&) = delete;
  Hasher& operator=(const Hasher&) = delete;
  void Add(const void* data, std::size_t bytes);
  Hash Result() const;

 private:
  alignas(64) std::array<std::byte, 640> state_;  // XXH3's, whose header nobody else needs
};

}  // namespace ringway::internal
