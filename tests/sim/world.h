// A random world: a small cluster, its trainers and its faults, all drawn from one seed.
//
//   form --> faults, of kinds and at rates drawn from the seed --> everything heals
//        --> all survivors must complete their program, and the promise must have been kept
//
// Swarm testing: each seed leaves out most kinds of faults, so that the others reach states that those would prevent.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tests/history/history.h"

namespace ringway::sim {

struct WorldReport {
  std::string failure;  // empty: no invariant was violated
  std::uint64_t events = 0;
  std::map<std::string, std::uint64_t> counts;  // operations by outcome, faults by kind
  std::vector<std::string> trace;               // if requested: "microseconds who what"
};

std::vector<std::string> FaultKinds();

// The recording that another checker (tests/history) reads. Without judges the world goes on whatever is reported to
// its trainers.
struct Recording {
  const history::Writer* history = nullptr;
  bool judges = true;
};

// A pure function of the seed, except for the trace.
WorldReport RunWorld(std::uint64_t seed, bool trace, const Recording& recording = {});

}  // namespace ringway::sim
