// Shared by the scripted scenarios: formed groups, operations of all sizes, waiting for them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <vector>

#include "tests/sanitized.h"
#include "tests/sim/cluster.h"

namespace ringway::sim {

using Nodes = std::vector<std::uint32_t>;

inline void CheckAgreement(const Cluster& cluster, const Nodes& nodes) { EXPECT_EQ(cluster.WhyBroken(nodes), ""); }

inline Descriptor SumF32(std::uint64_t count) {
  return {OpKind::kAllReduce, DType::kF32, ReduceOp::kSum, Codec::kNone, Algorithm::kRing, count};
}
inline const Descriptor kUpdate{OpKind::kUpdateView, DType::kU8, ReduceOp::kSum, Codec::kNone, Algorithm::kRing, 0};
inline constexpr std::uint64_t kSmall = 1000;           // 4 KB: reported at once, retained
inline constexpr std::uint64_t kLarge = 100 * 1000;     // 400 KB: the DONE exchange
inline constexpr std::uint64_t kJustLarge = 20 * 1000;  // 80 KB: the same in fewer segments
inline constexpr std::uint64_t kHuge = 3 << 19;         // 6 MiB: beyond the eager window

// Sweeps take every fifth point with sanitizers, which cost tenfold and look for other bugs than the protocol's.
inline constexpr std::uint64_t kSweep = kSanitized ? 5 : 1;

inline Nodes Range(std::uint32_t count) {
  Nodes nodes(count);
  std::iota(nodes.begin(), nodes.end(), 0);
  return nodes;
}

inline Nodes Without(Nodes nodes, std::uint32_t gone) {
  std::erase(nodes, gone);
  return nodes;
}

// A formed group of `world` nodes, 0 .. world - 1.
inline std::unique_ptr<Cluster> Formed(std::uint32_t world, const ClusterOptions& options = {}) {
  auto cluster = std::make_unique<Cluster>(options);
  for (std::uint32_t i = 0; i < world; ++i) cluster->AddNode(world);
  const auto joined = [&] {
    for (std::uint32_t i = 0; i < world; ++i) {
      if (!cluster->Joined(i)) return false;
    }
    return true;
  };
  EXPECT_TRUE(cluster->RunUntil(joined)) << cluster->PendingText(0);
  return cluster;
}

inline void SubmitAll(Cluster& cluster, const Nodes& nodes, const Descriptor& descriptor, std::uint32_t channel = 0) {
  for (const std::uint32_t node : nodes) cluster.Submit(node, descriptor, channel);
}

inline MessageOrder Sends(PeerId to, std::uint64_t count, std::uint32_t tag = 0) {
  return {.sends = true, .other = to, .tag = tag, .count = count};
}
inline MessageOrder Receives(PeerId from, std::uint64_t count, std::uint32_t tag = 0) {
  return {.other = from, .tag = tag, .count = count};
}

inline bool Finish(Cluster& cluster, const Nodes& nodes) {
  return cluster.RunUntil([&] { return cluster.AllDone(nodes); });
}

inline bool FinishMessages(Cluster& cluster, const Nodes& nodes) {
  return cluster.RunUntil([&] {
    return std::all_of(nodes.begin(), nodes.end(), [&](std::uint32_t node) { return cluster.OpenMessages(node) == 0; });
  });
}

}  // namespace ringway::sim
