// A state that a chaos trainer shares with the others: large enough that newcomers take it before they are admitted, of
// which one piece changes as the training goes on. All ranks that have made the same steps have the same bytes.
//
// One thread.
#pragma once

#include <xxhash.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ringway/shared_state.hpp>
#include <utility>
#include <vector>

namespace ringway::chaos {

class CarriedState {
 public:
  static Result<CarriedState> Make() {
    std::vector<std::byte> bytes(kBytes);
    StateTensor tensor{.name = "carried", .data = bytes.data(), .bytes = bytes.size()};
    auto state = SharedState::Make({std::move(tensor)});
    if (!state.ok()) return state.status();
    return CarriedState(std::move(bytes), std::move(*state));
  }

  SharedState& shared() { return state_; }
  // Every rank calls it after the same steps.
  void Change(std::uint64_t step) { std::memcpy(bytes_.data() + step % kChanging * sizeof step, &step, sizeof step); }
  std::uint64_t Hash() const { return XXH3_64bits(bytes_.data(), kChanging * sizeof(std::uint64_t)); }

 private:
  static constexpr std::size_t kBytes = std::size_t{64} << 20;
  static constexpr std::size_t kChanging = 4096;  // words, at the beginning
  CarriedState(std::vector<std::byte> bytes, SharedState state) : bytes_(std::move(bytes)), state_(std::move(state)) {}

  std::vector<std::byte> bytes_;  // which keep their place when it is moved
  SharedState state_;
};

}  // namespace ringway::chaos
