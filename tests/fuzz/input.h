// The input of a fuzz target, read as numbers and byte strings from the front; zeros once it is used up.
//
// libFuzzer's FuzzedDataProvider would do, but only clang has it, and the corpora are replayed under g++ too.
// REQUIRE aborts, in every build: libFuzzer and the replay both take that as the finding. Threads: one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <type_traits>

#define REQUIRE(condition)                                                                \
  do {                                                                                    \
    if (!(condition)) {                                                                   \
      std::fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                       \
    }                                                                                     \
  } while (false)

namespace ringway::fuzz {

// Borrows the bytes.
class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : rest_(std::as_bytes(std::span(data, size))) {}

  bool empty() const { return rest_.empty(); }
  std::span<const std::byte> Take(std::size_t bytes) {
    const auto taken = rest_.first(std::min(bytes, rest_.size()));
    rest_ = rest_.subspan(taken.size());
    return taken;
  }
  template <typename T>
  T Number() {
    static_assert(std::is_trivially_copyable_v<T>);
    T number{};
    const auto taken = Take(sizeof number);
    if (!taken.empty()) std::memcpy(&number, taken.data(), taken.size());
    return number;
  }
  // 0 .. bound - 1, from one byte. REQUIRES: 0 < bound <= 256.
  std::uint32_t Below(std::uint32_t bound) { return Number<std::uint8_t>() % bound; }
  bool OneIn(std::uint32_t bound) { return Below(bound) == bound - 1; }

 private:
  std::span<const std::byte> rest_;
};

}  // namespace ringway::fuzz

// libFuzzer and replay_main.cc call this once for each input.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
