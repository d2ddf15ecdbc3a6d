// A random world: a small cluster, its trainers and its faults, all drawn from one seed.
//
//   form --> faults of the kinds that this seed draws, at the rates that it draws --> everything heals
//        --> all that are still there must come to the end of their program, and the promise must have been kept
//
// Swarm testing: because each seed leaves most kinds of faults out, those it has meet states that others would prevent.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace ringway::sim {

struct WorldReport {
  std::string failure;  // empty: no rule was broken
  std::uint64_t events = 0;
  std::map<std::string, std::uint64_t> counts;  // operations by outcome, faults by kind
  std::vector<std::string> trace;               // if it was asked for: "microseconds who what"
};

std::vector<std::string> FaultKinds();

// The same for the same seed, but for the trace.
WorldReport RunWorld(std::uint64_t seed, bool trace);

}  // namespace ringway::sim
