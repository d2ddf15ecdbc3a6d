#include "master/coordination/clique.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <random>
#include <string>
#include <utility>

namespace ringway {
namespace {

using Bits = std::uint64_t;

CliqueProblem Of(std::size_t n, std::uint32_t wanted) {
  return {.neighbours = std::vector<Bits>(n), .wanted = std::vector<std::uint32_t>(n, wanted)};
}

void Join(CliqueProblem& problem, std::size_t a, std::size_t b) {
  problem.neighbours[a] |= Bits{1} << b;
  problem.neighbours[b] |= Bits{1} << a;
}

CliqueProblem Whole(std::size_t n, std::uint32_t wanted) {
  CliqueProblem problem = Of(n, wanted);
  for (std::size_t a = 0; a < n; ++a) {
    for (std::size_t b = 0; b < a; ++b) Join(problem, a, b);
  }
  return problem;
}

void Cut(CliqueProblem& problem, std::size_t a, std::size_t b) {
  problem.neighbours[a] &= ~(Bits{1} << b);
  problem.neighbours[b] &= ~(Bits{1} << a);
}

// Each pair with this probability.
CliqueProblem Random(std::mt19937_64& random, std::size_t n, double density) {
  CliqueProblem problem = Of(n, 1);
  std::bernoulli_distribution stands(density);
  for (std::size_t a = 0; a < n; ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      if (stands(random)) Join(problem, a, b);
    }
  }
  return problem;
}

bool IsSatisfiedClique(const CliqueProblem& problem, Bits set) {
  const int size = std::popcount(set);
  for (std::size_t i = 0; i < problem.wanted.size(); ++i) {
    if ((set >> i & 1) == 0) continue;
    if ((set & ~(problem.neighbours[i] | Bits{1} << i)) != 0) return false;
    if (problem.wanted[i] > static_cast<std::uint32_t>(size)) return false;
  }
  return true;
}

int SizeByTryingAll(const CliqueProblem& problem) {
  int best = 0;
  for (Bits set = 1; set < Bits{1} << problem.wanted.size(); ++set) {
    if (std::popcount(set) > best && IsSatisfiedClique(problem, set)) best = std::popcount(set);
  }
  return best;
}

TEST(CliqueTest, NobodyIsNoSet) { EXPECT_EQ(LargestSatisfiedClique({}).members, 0u); }

TEST(CliqueTest, OneAloneIsEnoughForWhoWaitsForNobody) {
  EXPECT_EQ(LargestSatisfiedClique(Of(1, 1)).members, 1u);
  EXPECT_EQ(LargestSatisfiedClique(Of(1, 2)).members, 0u);
}

TEST(CliqueTest, UnreachableFirstVertexIsLeftOut) {
  CliqueProblem problem = Whole(4, 3);
  for (const std::size_t other : {1, 2, 3}) Cut(problem, 0, other);
  EXPECT_EQ(LargestSatisfiedClique(problem).members, 0b1110u);
}

TEST(CliqueTest, LowestVerticesAreTakenWhereSeveralSetsAreLargest) {
  CliqueProblem problem = Whole(4, 3);
  Cut(problem, 0, 3);
  EXPECT_EQ(LargestSatisfiedClique(problem).members, 0b0111u);
}

TEST(CliqueTest, WhoWaitsForMoreThanThereAreHoldsNobodyElse) {
  CliqueProblem problem = Whole(4, 3);
  problem.wanted[1] = 9;
  EXPECT_EQ(LargestSatisfiedClique(problem).members, 0b1101u);
  problem.wanted[2] = 4;
  EXPECT_EQ(LargestSatisfiedClique(problem).members, 0u) << "two are left, and they wait for three";
}

TEST(CliqueTest, LargerSetWinsOverTheOneThatWasCompleteFirst) {
  CliqueProblem problem = Whole(7, 3);
  for (const std::size_t low : {0, 1, 2}) {
    for (const std::size_t high : {3, 4, 5, 6}) Cut(problem, low, high);
  }
  EXPECT_EQ(LargestSatisfiedClique(problem).members, 0b1111000u);
}

TEST(CliqueTest, SixtyFourThatAllStandAreOneSet) {
  CliqueProblem problem = Whole(64, 64);
  EXPECT_EQ(LargestSatisfiedClique(problem).members, ~Bits{0});
  Cut(problem, 0, 63);
  EXPECT_EQ(LargestSatisfiedClique(problem).members, 0u);
  problem.wanted.assign(64, 63);
  EXPECT_EQ(LargestSatisfiedClique(problem).members, ~Bits{0} >> 1);
}

TEST(CliqueTest, BitsOfItselfAndOfNobodyCountForNothing) {
  CliqueProblem problem = Whole(2, 2);
  problem.neighbours[0] |= ~Bits{3} | 1;
  EXPECT_EQ(LargestSatisfiedClique(problem).members, 3u);
}

// Every graph of up to five vertices, and random ones of up to eleven.
TEST(CliqueTest, SmallProblemsHaveTheSizeThatTryingAllSetsFinds) {
  for (std::size_t n = 1; n <= 5; ++n) {
    for (Bits edges = 0; edges < Bits{1} << (n * (n - 1) / 2); ++edges) {
      for (std::uint32_t wanted = 1; wanted <= n; ++wanted) {
        CliqueProblem problem = Of(n, wanted);
        Bits rest = edges;
        for (std::size_t a = 0; a < n; ++a) {
          for (std::size_t b = 0; b < a; ++b, rest >>= 1) {
            if ((rest & 1) != 0) Join(problem, a, b);
          }
        }
        const Bits members = LargestSatisfiedClique(problem).members;
        ASSERT_EQ(std::popcount(members), SizeByTryingAll(problem)) << n << " vertices, edges " << edges;
        ASSERT_TRUE(IsSatisfiedClique(problem, members));
      }
    }
  }
  for (std::uint64_t seed = 1; seed <= 1500; ++seed) {
    std::mt19937_64 random(seed);
    const std::size_t n = 6 + random() % 6;
    CliqueProblem problem = Random(random, n, 0.2 + 0.1 * static_cast<double>(random() % 8));
    const std::uint64_t most = 1 + random() % n;
    for (std::uint32_t& wanted : problem.wanted) wanted = static_cast<std::uint32_t>(1 + random() % most);
    const CliqueAnswer answer = LargestSatisfiedClique(problem);
    ASSERT_TRUE(answer.exact);
    ASSERT_EQ(std::popcount(answer.members), SizeByTryingAll(problem)) << "seed " << seed;
    ASSERT_TRUE(IsSatisfiedClique(problem, answer.members)) << "seed " << seed;
  }
}

// A set that was hidden among 64 is found, whatever the density of the rest.
TEST(CliqueTest, HiddenSetAmongSixtyFourIsFoundExactly) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    std::mt19937_64 random(seed);
    CliqueProblem problem = Random(random, 64, 0.1 * static_cast<double>(1 + random() % 9));
    const std::uint64_t hidden = random();  // about half of them
    for (std::size_t a = 0; a < 64; ++a) {
      for (std::size_t b = 0; b < a; ++b) {
        if ((hidden >> a & 1) != 0 && (hidden >> b & 1) != 0) Join(problem, a, b);
      }
    }
    const CliqueAnswer answer = LargestSatisfiedClique(problem);
    ASSERT_TRUE(answer.exact) << "seed " << seed;
    ASSERT_TRUE(IsSatisfiedClique(problem, answer.members));
    ASSERT_GE(std::popcount(answer.members), std::popcount(hidden)) << "seed " << seed;
    ASSERT_EQ(LargestSatisfiedClique(problem).members, answer.members) << "seed " << seed;
  }
}

// Five vertices in a circle have cliques of two and need three colours. Twelve such circles, each joined with all of
// every other: the bound is always half too high, and all of 5^12 choices would have to be looked at.
TEST(CliqueTest, GraphThatWasMadeToBeHardIsGivenUpOnWithTheBestSoFar) {
  CliqueProblem problem = Whole(60, 1);
  for (std::size_t circle = 0; circle < 60; circle += 5) {
    for (std::size_t i = 0; i < 5; ++i) Cut(problem, circle + i, circle + (i + 2) % 5);
  }
  const CliqueAnswer answer = LargestSatisfiedClique(problem);
  EXPECT_FALSE(answer.exact);
  EXPECT_EQ(std::popcount(answer.members), 24);
  EXPECT_TRUE(IsSatisfiedClique(problem, answer.members));
}

}  // namespace
}  // namespace ringway
