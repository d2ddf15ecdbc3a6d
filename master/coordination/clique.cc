#include "master/coordination/clique.h"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <set>

#include "proto/check.h"

namespace ringway {
namespace {

using Bits = std::uint64_t;

Bits BitOf(std::size_t vertex) { return Bits{1} << vertex; }
std::size_t LowestOf(Bits set) { return static_cast<std::size_t>(std::countr_zero(set)); }
std::size_t SizeOf(Bits set) { return static_cast<std::size_t>(std::popcount(set)); }

// One search in a subset of the vertices.
class Search {
 public:
  Search(const std::vector<Bits>& neighbours, std::uint64_t& steps_left)
      : neighbours_(neighbours), steps_left_(steps_left) {}

  // Returns the largest clique of at least `size_min` among `candidates`; 0 if none was found.
  Bits Run(Bits candidates, std::size_t size_min) {
    candidates = Core(candidates, size_min);
    if (SizeOf(candidates) < size_min) return 0;
    best_ = Grown(candidates);
    best_size_ = std::max(SizeOf(best_), size_min - 1);
    Expand(0, 0, candidates);
    return SizeOf(best_) < size_min ? 0 : best_;
  }

 private:
  // Removes vertices with too few neighbours for a clique of this size; while links are opening that is usually all.
  Bits Core(Bits set, std::size_t size_min) const {
    for (bool again = true; again;) {
      again = false;
      for (Bits rest = set; rest != 0; rest &= rest - 1) {
        const std::size_t vertex = LowestOf(rest);
        if (SizeOf(neighbours_[vertex] & set) + 1 >= size_min) continue;
        set &= ~BitOf(vertex);
        again = true;
      }
    }
    return set;
  }

  // Returns the greedy clique from the lowest vertex upwards.
  Bits Grown(Bits candidates) const {
    Bits clique = 0;
    while (candidates != 0) {
      const std::size_t vertex = LowestOf(candidates);
      clique |= BitOf(vertex);
      candidates &= neighbours_[vertex];
    }
    return clique;
  }

  // A colour is a set of vertices of which no two are neighbours: a clique has at most one of each. In ascending order
  // of colours, so that `colours[i]` bounds every clique among the first i + 1.
  struct Coloured {
    std::array<std::uint8_t, kCliqueVerticesMax> order;
    std::array<std::uint8_t, kCliqueVerticesMax> colours;
    std::size_t size = 0;
  };
  Coloured Colour(Bits candidates) const {
    Coloured out;
    for (std::uint8_t colour = 1; candidates != 0; ++colour) {
      for (Bits free = candidates; free != 0;) {
        const std::size_t vertex = LowestOf(free);
        free &= ~(neighbours_[vertex] | BitOf(vertex));
        candidates &= ~BitOf(vertex);
        out.order[out.size] = static_cast<std::uint8_t>(vertex);
        out.colours[out.size++] = colour;
      }
    }
    return out;
  }

  // Extends `clique`, whose vertices are all neighbours of all `candidates`. At most one call deep a vertex.
  void Expand(Bits clique, std::size_t size, Bits candidates) {
    if (steps_left_ == 0) return;
    --steps_left_;
    const Coloured coloured = Colour(candidates);
    for (std::size_t i = coloured.size; i-- > 0;) {
      if (size + coloured.colours[i] <= best_size_) return;
      const std::size_t vertex = coloured.order[i];
      const Bits grown = clique | BitOf(vertex);
      const Bits rest = candidates & neighbours_[vertex];
      if (rest != 0) {
        Expand(grown, size + 1, rest);
      } else if (size + 1 > best_size_) {
        best_ = grown;
        best_size_ = size + 1;
      }
      candidates &= ~BitOf(vertex);
    }
  }

  const std::vector<Bits>& neighbours_;
  std::uint64_t& steps_left_;
  Bits best_ = 0;
  std::size_t best_size_ = 0;  // to be exceeded
};

}  // namespace

// A vertex that wants more than w is in no solution of size w. So the search starts with all vertices and accepts the
// largest clique if it satisfies the largest `wanted`; otherwise it removes the vertices with that `wanted` and
// repeats. Later cliques are no larger than earlier ones, so the first one that is accepted is the answer.
CliqueAnswer LargestSatisfiedClique(const CliqueProblem& problem, std::uint64_t& steps_left) {
  const std::size_t n = problem.neighbours.size();
  RINGWAY_CHECK(n <= kCliqueVerticesMax && problem.wanted.size() == n);
  const Bits all = n == kCliqueVerticesMax ? ~Bits{0} : BitOf(n) - 1;
  std::vector<Bits> neighbours = problem.neighbours;
  for (std::size_t i = 0; i < n; ++i) neighbours[i] &= all & ~BitOf(i);
  const std::set<std::uint32_t, std::greater<>> sizes(problem.wanted.begin(), problem.wanted.end());
  for (const std::uint32_t size : sizes) {
    Bits patient = 0;
    for (std::size_t i = 0; i < n; ++i) {
      if (problem.wanted[i] <= size) patient |= BitOf(i);
    }
    const Bits found = Search(neighbours, steps_left).Run(patient, std::max<std::size_t>(size, 1));
    if (found != 0) return {.members = found, .exact = steps_left > 0};
  }
  return {.members = 0, .exact = steps_left > 0};
}

CliqueAnswer LargestSatisfiedClique(const CliqueProblem& problem) {
  std::uint64_t steps_left = kCliqueStepsMax;
  return LargestSatisfiedClique(problem, steps_left);
}

}  // namespace ringway
