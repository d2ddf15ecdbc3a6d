// The first view of a group: the largest set of peers that all stand with each other and are as many as each of them
// waits for. Pure.
//
// Peers are vertices 0 .. n - 1 (n at most 64), sets of them bits. Finding a largest clique is hard in general, not at
// this size: branch and bound with a greedy colouring as the bound (Tomita's MCS, San Segundo's bit sets) takes
// microseconds for graphs of real links. Graphs made to be hard are given up on after kCliqueStepsMax branches; then
// the answer is the best so far.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ringway {

inline constexpr std::size_t kCliqueVerticesMax = 64;
// Of one call, whatever the graph: some milliseconds.
inline constexpr std::uint64_t kCliqueStepsMax = 100'000;

// `neighbours[i]`: who stands with i, symmetric; bits of i itself and beyond n are ignored.
// `wanted[i]`: the size that i waits for.
struct CliqueProblem {
  std::vector<std::uint64_t> neighbours;
  std::vector<std::uint32_t> wanted;  // as many
};

struct CliqueAnswer {
  std::uint64_t members = 0;  // 0: there is no such set
  bool exact = true;          // false: the steps ran out, so a larger set may exist
};

// The largest clique that is no smaller than what any of its members waits for. Never smaller than the one grown from
// the lowest vertex upwards, which is the answer where it is a largest one. The same problem has the same answer.
// REQUIRES: at most kCliqueVerticesMax vertices.
CliqueAnswer LargestSatisfiedClique(const CliqueProblem& problem);

}  // namespace ringway
