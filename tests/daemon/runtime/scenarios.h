// Scenarios that a few daemons (planes.h) have to come through, with any seed. Each runs in a world of its own and
// returns what is wrong; "" if nothing is.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace ringway::daemon {

struct Scenario {
  const char* name;  // condition and outcome
  std::string (*why_wrong)(std::uint64_t seed);
};

std::span<const Scenario> Scenarios();

}  // namespace ringway::daemon
