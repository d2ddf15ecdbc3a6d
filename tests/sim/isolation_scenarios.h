// Groups in which one member's links to all others die while the master hears everybody; for the tests of the rules,
// and of those without one.
#pragma once

#include <cstdint>

#include "tests/sim/scenario.h"

namespace ringway::sim {

struct Isolation {
  std::uint64_t seed = 1;
  std::uint32_t world = 3;
  std::uint32_t alone = 0;           // this member's links die
  bool refused = true;               // new links are refused at once; else dials time out
  std::vector<Duration> after = {};  // when its links to each of the others die, in their order
};

// Runs it. Returns whether the others finish what they have submitted, as one group, without that member.
inline bool OthersStay(const Isolation& isolation) {
  ClusterOptions options{.seed = isolation.seed};
  options.network.delay_max = std::chrono::milliseconds(5);
  auto cluster = Formed(isolation.world, options);
  const Nodes others = Without(Range(isolation.world), isolation.alone);
  SubmitAll(*cluster, others, SumF32(kSmall));
  if (isolation.refused) {
    cluster->RefuseDialsOf(isolation.alone);
  } else {
    cluster->MakeUnreachable(isolation.alone);
  }
  for (std::size_t i = 0; i < others.size(); ++i) {
    cluster->events_queue().After(isolation.after[i], [&cluster, &isolation, other = others[i]] {
      cluster->CutAllLinks(isolation.alone, other);
    });
  }
  const auto has_ended = [&](std::uint32_t node) { return cluster->Ended(node); };
  if (!cluster->RunUntil(
          [&] { return cluster->Ended(isolation.alone) || std::any_of(others.begin(), others.end(), has_ended); }))
    return false;
  if (!Finish(*cluster, others) || !cluster->WhyBroken(others).empty()) return false;
  return std::none_of(others.begin(), others.end(), has_ended) &&
         cluster->WorldOf(others.front()) == isolation.world - 1;
}

// Returns how many of these groups lose a healthy member: each member in turn is cut off, its links dying within
// `spread` in many orders.
inline std::uint32_t LossesOfHealthy(bool refused, Duration spread, std::uint32_t world) {
  std::uint32_t losses = 0;
  std::mt19937_64 random(spread.count());
  for (std::uint64_t seed = 1; seed <= 40; seed += kSweep) {
    Isolation isolation{.seed = seed, .world = world, .refused = refused};
    isolation.alone = static_cast<std::uint32_t>(seed % world);
    for (std::uint32_t other = 1; other < world; ++other) {
      isolation.after.emplace_back(static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(spread.count())));
    }
    losses += OthersStay(isolation) ? 0 : 1;
  }
  return losses;
}

}  // namespace ringway::sim
