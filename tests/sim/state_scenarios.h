// A group of three whose members give their state to a newcomer before it is admitted, each in a group of the two.
#pragma once

#include <algorithm>
#include <memory>
#include <string>

#include "tests/sim/scenario.h"

namespace ringway::sim {

struct StateWorld {
  explicit StateWorld(const ClusterOptions& options = {}) : cluster(Formed(3, options)) {
    newcomer = cluster->Join(cluster->AddDaemon(), {.takes_state = true});
    EXPECT_TRUE(cluster->RunUntil([&] { return cluster->TakesState(newcomer); }));
  }

  // Members and newcomer form their groups of two, in each of which a piece is under way.
  void Give() {
    for (const std::uint32_t member : Range(3)) {
      const JoinOrder pair{.group = "g#state-" + std::to_string(member), .wait_world = 2};
      givers.push_back(cluster->Join(cluster->HostOf(member), pair));
      takers.push_back(cluster->Join(cluster->HostOf(newcomer), pair));
    }
    const auto joined = [&](std::uint32_t node) { return cluster->Joined(node); };
    EXPECT_TRUE(cluster->RunUntil([&] {
      return std::all_of(givers.begin(), givers.end(), joined) && std::all_of(takers.begin(), takers.end(), joined);
    }));
    for (std::size_t i = 0; i < givers.size(); ++i) {
      cluster->SubmitMessage(takers[i], Receives(cluster->IdOf(givers[i]), kHuge));
      cluster->SubmitMessage(givers[i], Sends(cluster->IdOf(takers[i]), kHuge));
    }
  }
  // The members adopt whatever view is prepared, several times at most. Returns whether the newcomer has joined.
  bool IsAdmitted(const Nodes& members) {
    const auto joined = [&] { return cluster->Joined(newcomer); };
    for (int updates = 0; updates < 10 && !joined(); ++updates) {
      SubmitAll(*cluster, members, kUpdate);
      EXPECT_TRUE(Finish(*cluster, members)) << cluster->failure();
      (void)cluster->RunUntil(joined, std::chrono::seconds(1));
    }
    return joined();
  }

  std::unique_ptr<Cluster> cluster;
  std::uint32_t newcomer = 0;
  Nodes givers;
  Nodes takers;
};

// Returns whether a newcomer that takes the state stays out, also of the views of a master that is back.
inline bool StaysOutWhileItTakes() {
  StateWorld world;
  if (world.IsAdmitted(Range(3))) return false;
  world.cluster->KillMaster();
  world.cluster->StartMaster();
  return !world.IsAdmitted(Range(3));
}

inline bool IsAdmittedOnceItHasTheState() {
  StateWorld world;
  world.cluster->FinishState(world.newcomer);
  return world.IsAdmitted(Range(3));
}

// Returns whether peers form a group that all wait for the state of members, if there were any.
inline bool FormsWhereAllWouldTake() {
  Cluster cluster({});
  for (std::uint32_t i = 0; i < 3; ++i) cluster.Join(cluster.AddDaemon(), {.wait_world = 3, .takes_state = true});
  return cluster.RunUntil([&] { return cluster.Joined(0) && cluster.Joined(1) && cluster.Joined(2); });
}

// Returns whether all members hear of a newcomer that takes their state.
inline bool AllMembersHearOfIt() {
  StateWorld world;
  const PeerId newcomer = world.cluster->IdOf(world.newcomer);
  const Nodes members = Range(3);
  const auto has_heard = [&](std::uint32_t member) { return world.cluster->AskersOf(member).contains(newcomer); };
  return world.cluster->RunUntil([&] { return std::all_of(members.begin(), members.end(), has_heard); });
}

}  // namespace ringway::sim
