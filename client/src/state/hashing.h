// The 128-bit hash of shared states: XXH3, the same on all ranks. Finds accidents; who may join a group is trusted.
#pragma once

#include <cstddef>
#include <memory>

#include "client/src/state/choose.h"

namespace ringway::internal {

Hash HashOf(const void* data, std::size_t bytes);

// The same, of what is added one after the other.
class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(const Hasher&) = delete;
  Hasher& operator=(const Hasher&) = delete;
  void Add(const void* data, std::size_t bytes);
  Hash Result() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ringway::internal
