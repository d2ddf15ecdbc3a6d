// A store that takes its time, and a master that dies meanwhile.
#pragma once

#include "tests/sim/hung_scenarios.h"
#include "tests/sim/scenario.h"

namespace ringway::sim {

// A member dies, then the master, so long after the loss, in the middle of writing its decision. The successor has what
// was written. Returns whether the survivors agree on all outcomes.
inline bool AgreesWhenTheMasterDiesWhileItWrites(Duration later) {
  ClusterOptions options;
  options.record_delay = std::chrono::milliseconds(40);
  auto cluster = Formed(4, options);
  SubmitAll(*cluster, Range(4), SumF32(kLarge));
  cluster->RunEvents(60);
  cluster->KillDaemon(3);
  Pass(*cluster, later);
  cluster->KillMaster();
  Pass(*cluster, std::chrono::milliseconds(200));
  cluster->StartMaster();
  const bool finished = Finish(*cluster, {0, 1, 2});
  SubmitAll(*cluster, {0, 1, 2}, SumF32(kSmall));
  return finished && Finish(*cluster, {0, 1, 2}) && cluster->WhyBroken({0, 1, 2}).empty();
}

// Returns for how many of the moments they do not.
inline int DisagreementsWhenTheMasterDiesWhileItWrites() {
  int disagreements = 0;
  for (int ms = 0; ms < 400; ms += 5) {
    disagreements += AgreesWhenTheMasterDiesWhileItWrites(std::chrono::milliseconds(ms)) ? 0 : 1;
  }
  return disagreements;
}

}  // namespace ringway::sim
