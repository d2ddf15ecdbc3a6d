// Worlds of masters that share a store, for the tests with and without planted bugs.
#pragma once

#include <string>

#include "tests/sim/masters.h"

namespace ringway::sim {

// Returns what is broken in the worlds of these seeds, with the seed; empty: nothing.
inline std::string RunMasters(std::uint64_t first, std::uint64_t count) {
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    Masters masters({.seed = seed});
    masters.Run(std::chrono::seconds(60));
    masters.Heal();
    masters.Run(std::chrono::seconds(12));
    const std::uint64_t before = masters.announced();
    masters.Run(std::chrono::seconds(1));
    std::string failure = masters.failure();
    if (failure.empty() && masters.announced() == before) failure = "nobody decides although nothing fails";
    if (!failure.empty()) return "seed " + std::to_string(seed) + ": " + failure;
  }
  return "";
}

}  // namespace ringway::sim
