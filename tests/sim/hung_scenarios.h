// Groups in which a trainer hangs, or only seems to, while others send and receive; for the tests of the rules, and of
// those without one.
#pragma once

#include "tests/sim/scenario.h"

namespace ringway::sim {

inline void Pass(Cluster& cluster, Duration time) {
  const TimePoint end = cluster.now() + time;
  EXPECT_TRUE(cluster.RunUntil([&] { return cluster.now() >= end; }, 2 * time));
}

// Two wait for all, and node 1 for node 2, which hangs, to receive what it has sent ahead, for which it blames nobody.
// Node 2 was the last to do something, so node 1 is blamed first. Returns whether it is still there when node 2 is
// gone.
inline bool StaysWhoReceives(Duration limit) {
  const auto cluster = Formed(4, {.hung = limit});
  SubmitAll(*cluster, {0, 3}, SumF32(kSmall));
  cluster->SubmitMessage(1, Sends(cluster->IdOf(2), kSmall));
  Pass(*cluster, limit / 4);
  cluster->SubmitMessage(2, Sends(cluster->IdOf(0), kSmall));
  cluster->SubmitMessage(0, Receives(cluster->IdOf(2), kSmall));
  if (!cluster->RunUntil([&] { return cluster->Ended(2); }) || cluster->Ended(1)) return false;
  EXPECT_EQ(cluster->EndedCode(2), Code::kEvicted);
  SubmitAll(*cluster, {1}, SumF32(kSmall));
  return Finish(*cluster, {0, 1, 3}) && FinishMessages(*cluster, {1});
}

// Three nodes wait for two that exchange messages for long. Whether these are still there.
inline bool StayWhoExchange(Duration limit) {
  const auto cluster = Formed(5, {.hung = limit});
  SubmitAll(*cluster, {0, 3, 4}, SumF32(kSmall));
  const TimePoint end = cluster->now() + 4 * limit;
  for (std::uint32_t from = 1; cluster->now() < end; from = 3 - from) {
    if (cluster->Ended(1) || cluster->Ended(2)) return false;
    cluster->SubmitMessage(from, Sends(cluster->IdOf(3 - from), kSmall));
    cluster->SubmitMessage(3 - from, Receives(cluster->IdOf(from), kSmall));
    if (!FinishMessages(*cluster, {1, 2})) return false;
    Pass(*cluster, limit / 7);
  }
  SubmitAll(*cluster, {1, 2}, SumF32(kSmall));
  return Finish(*cluster, Range(5)) && cluster->OutcomesOf(0).begin()->second.contributors.size() == 5;
}

}  // namespace ringway::sim
