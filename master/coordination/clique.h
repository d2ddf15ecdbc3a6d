// The members of a group's first view: the largest set of peers that are all connected to each other and that is as
// large as each of them waits for. Pure.
//
// A maximum clique problem. Peers are vertices 0 .. n - 1 (n at most 64), sets are bit masks. Branch and bound with a
// greedy colouring as the bound (Tomita's MCS, San Segundo's bit sets) takes microseconds for graphs of real links. For
// adversarial graphs the search stops after kCliqueStepsMax branches and returns the best clique so far.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ringway {

inline constexpr std::size_t kCliqueVerticesMax = 64;
// Branches of one call, or of all searches of one decision, whatever the graph: some milliseconds.
inline constexpr std::uint64_t kCliqueStepsMax = 100'000;

// `neighbours[i]`: the peers connected to i, symmetric; bit i and bits from n on are ignored.
// `wanted[i]`: the size that i waits for.
struct CliqueProblem {
  std::vector<std::uint64_t> neighbours;
  std::vector<std::uint32_t> wanted;  // as many
};

struct CliqueAnswer {
  std::uint64_t members = 0;  // 0: there is no such set
  bool exact = true;          // false: stopped early, a larger set may exist
};

// Returns the largest clique whose size is at least `wanted` of all its members. Never smaller than the greedy clique
// from the lowest vertex upwards, which is returned if it is a largest one. Deterministic. REQUIRES: at most
// kCliqueVerticesMax vertices.
CliqueAnswer LargestSatisfiedClique(const CliqueProblem& problem);
// The same, with what other searches have left of the branches, of which it takes what it tries.
CliqueAnswer LargestSatisfiedClique(const CliqueProblem& problem, std::uint64_t& steps_left);

}  // namespace ringway
