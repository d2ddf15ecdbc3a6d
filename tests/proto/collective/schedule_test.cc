#include "proto/collective/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "proto/collective/shares.h"

namespace ringway::collective {
namespace {

std::vector<Rank> Ring(std::initializer_list<std::uint32_t> ranks) {
  std::vector<Rank> ring;
  for (const std::uint32_t rank : ranks) ring.emplace_back(rank);
  return ring;
}

std::vector<Rank> Identity(std::uint32_t world) {
  std::vector<Rank> ring;
  for (std::uint32_t rank = 0; rank < world; ++rank) ring.emplace_back(rank);
  return ring;
}

Schedule RingSchedule(const std::vector<Rank>& ring, Rank self) {
  return MakeSchedule(OpKind::kAllReduce, Algorithm::kRing, {.ring = ring}, self);
}

// The steps of four ranks with one element a chunk, cell by cell.
TEST(RingSchedule, FollowsTheWorkedExampleStepByStep) {
  std::vector<std::vector<int>> grid = {{15, 12, 9, 6}, {2, 8, 6, 4}, {1, 3, 4, 2}, {12, 6, 3, 15}};
  const std::vector<std::vector<std::pair<std::uint32_t, int>>> changed = {
      {{3, 21}, {0, 17}, {1, 11}, {2, 7}}, {{2, 16}, {3, 25}, {0, 18}, {1, 17}}, {{1, 29}, {2, 22}, {3, 27}, {0, 30}}};
  const auto ring = Identity(4);
  for (std::uint32_t step = 0; step < 6; ++step) {
    const auto before = grid;
    for (std::uint32_t rank = 0; rank < 4; ++rank) {
      const Arrival arrival = RingSchedule(ring, Rank(rank)).arrivals[step];
      const Departure departure = RingSchedule(ring, arrival.from).departures[step];
      ASSERT_EQ(departure.chunk, arrival.chunk);
      ASSERT_EQ(departure.to, Rank(rank));
      const int received = before[arrival.from.value][arrival.chunk];
      grid[rank][arrival.chunk] = arrival.reduce ? before[rank][arrival.chunk] + received : received;
      if (step < 3) {
        EXPECT_EQ(arrival.chunk, changed[step][rank].first) << "step " << step << " rank " << rank;
        EXPECT_EQ(grid[rank][arrival.chunk], changed[step][rank].second) << "step " << step << " rank " << rank;
      }
    }
  }
  for (const auto& row : grid) EXPECT_EQ(row, (std::vector<int>{30, 29, 22, 27}));
}

TEST(RingSchedule, EveryContributionArrivesExactlyOnceForWorldsTo64) {
  for (std::uint32_t world = 2; world <= 64; ++world) {
    const auto ring = Identity(world);
    std::vector<Schedule> schedules;
    for (std::uint32_t rank = 0; rank < world; ++rank) schedules.push_back(RingSchedule(ring, Rank(rank)));
    // held[rank][chunk]: whose inputs the rank's cell holds, a bit each
    std::vector<std::vector<std::uint64_t>> held(world);
    for (std::uint32_t rank = 0; rank < world; ++rank) held[rank].assign(world, std::uint64_t{1} << rank);
    const std::uint64_t all = world == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << world) - 1;
    for (std::uint32_t step = 0; step < 2 * (world - 1); ++step) {
      const auto before = held;
      for (std::uint32_t rank = 0; rank < world; ++rank) {
        const Arrival& arrival = schedules[rank].arrivals[step];
        const std::uint64_t received = before[arrival.from.value][arrival.chunk];
        std::uint64_t& cell = held[rank][arrival.chunk];
        ASSERT_TRUE(!arrival.reduce || (cell & received) == 0) << "a contribution is added twice";
        cell = arrival.reduce ? cell | received : received;
        for (const Sum& sum : schedules[rank].sums) {
          if (!arrival.reduce || sum.chunk != arrival.chunk) continue;
          ASSERT_EQ(sum.finishes, cell == all);
        }
      }
    }
    for (const auto& row : held) {
      for (const std::uint64_t cell : row) ASSERT_EQ(cell, all) << "world " << world;
    }
  }
}

TEST(RingSchedule, NeighboursFollowTheRingOrderNotTheRanks) {
  const Schedule schedule = RingSchedule(Ring({2, 0, 1}), Rank(0));
  EXPECT_EQ(schedule.arrivals.front().from, Rank(2));
  EXPECT_EQ(schedule.departures.front().to, Rank(1));
}

TEST(RingSchedule, EachRankSendsTheTextbookVolume) {
  const Schedule schedule = RingSchedule(Identity(8), Rank(3));
  EXPECT_EQ(schedule.departures.size(), 14u);  // of 8 chunks: 1.75 times the buffer
  EXPECT_EQ(RingSchedule(Identity(1), Rank(0)).departures.size(), 0u);
}

// Returns what rank `self` sends, in units of the buffer.
double Volume(Algorithm algorithm, std::uint32_t world, std::uint32_t self, std::uint32_t site_size = 1) {
  std::vector<std::uint32_t> sites;
  for (std::uint32_t rank = 0; rank < world; ++rank) sites.push_back(rank / site_size);
  const Schedule schedule =
      MakeSchedule(OpKind::kAllReduce, algorithm, {.ring = Identity(world), .sites = sites}, Rank(self));
  return static_cast<double>(schedule.departures.size()) / schedule.chunks();
}

TEST(Schedules, SendTheTextbookVolumes) {
  for (const std::uint32_t world : {2u, 4u, 8u, 64u}) {
    const double least = 2.0 * (world - 1) / world;
    for (std::uint32_t rank = 0; rank < world; ++rank) {
      for (const Algorithm algorithm :
           {Algorithm::kRing, Algorithm::kTwoRings, Algorithm::kDirect, Algorithm::kHalvingDoubling}) {
        EXPECT_DOUBLE_EQ(Volume(algorithm, world, rank), least) << NameOf(algorithm) << ' ' << world;
      }
      EXPECT_EQ(Volume(Algorithm::kOneShot, world, rank), world - 1);
      EXPECT_EQ(Volume(Algorithm::kNaive, world, rank), rank == 0 ? world - 1 : 1);
    }
    EXPECT_EQ(Volume(Algorithm::kTree, world, 0), std::log2(world));
  }
}

// A rank's sums put aside the values beside their first two, which are added in the output.
TEST(Schedules, PutAsideNoMoreThanTheySay) {
  for (std::uint8_t kind = 0; kind < kAlgorithmCount; ++kind) {
    for (const std::uint32_t world : {2u, 3u, 4u, 7u, 8u, 33u, 64u}) {
      const std::vector<std::uint32_t> sites(world, 0);
      for (std::uint32_t rank = 0; rank < world; ++rank) {
        const Schedule schedule = MakeSchedule(OpKind::kAllReduce, static_cast<Algorithm>(kind),
                                               {.ring = Identity(world), .sites = sites}, Rank(rank));
        std::size_t aside = 0;
        for (const Sum& sum : schedule.sums) aside += sum.order.size() - 2;
        const std::uint64_t bytes = 1 << 20;
        EXPECT_LE(aside * bytes / schedule.chunks(), ReorderBytesMax(static_cast<Algorithm>(kind), world, bytes))
            << NameOf(static_cast<Algorithm>(kind)) << ' ' << world;
      }
    }
  }
}

// The owner of all that it may own sums more than it sends, but no more than is allowed for.
TEST(Schedules, DirectPutsAsideNoMoreThanItSaysWithTheLargestShare) {
  for (std::uint32_t world = 2; world <= 64; ++world) {
    const std::uint64_t aside = std::uint64_t{world - 2} * ShareMax(world);  // of the buffer, by kWholeShare
    EXPECT_LE(aside, ReorderBytesMax(Algorithm::kDirect, world, kWholeShare)) << world;
    EXPECT_GE(std::uint64_t{world} * ShareMax(world), kWholeShare) << "equal shares are allowed";
  }
}

TEST(Schedules, TwoRingsTravelInOppositeDirections) {
  const Schedule schedule = MakeSchedule(OpKind::kAllReduce, Algorithm::kTwoRings, {.ring = Identity(5)}, Rank(2));
  for (const Departure& departure : schedule.departures) EXPECT_EQ(departure.to, Rank(departure.chunk < 5 ? 3 : 1));
}

TEST(Schedules, RingsFollowTheirOrdersWithTheirShares) {
  const std::vector<WeightedRing> rings = {{.order = Ring({0, 1, 2, 3, 4}), .share = 3},
                                           {.order = Ring({0, 2, 4, 1, 3}), .share = 1}};
  const Schedule schedule =
      MakeSchedule(OpKind::kAllReduce, Algorithm::kRings, {.ring = Identity(5), .rings = rings}, Rank(1));
  EXPECT_EQ(schedule.weights, (std::vector<std::uint32_t>{3, 3, 3, 3, 3, 1, 1, 1, 1, 1}));
  for (const Departure& departure : schedule.departures) EXPECT_EQ(departure.to, Rank(departure.chunk < 5 ? 2 : 3));
}

TEST(Schedules, OneShotIsOneDelayAndDirectAreTwo) {
  for (std::uint32_t rank = 0; rank < 6; ++rank) {
    for (const Departure& departure :
         MakeSchedule(OpKind::kAllReduce, Algorithm::kOneShot, {.ring = Identity(6)}, Rank(rank)).departures) {
      EXPECT_EQ(departure.source, Source::kInput);
    }
    for (const Departure& departure :
         MakeSchedule(OpKind::kAllReduce, Algorithm::kDirect, {.ring = Identity(6)}, Rank(rank)).departures) {
      EXPECT_NE(departure.source, Source::kPartial);
    }
  }
}

// A member adds up its site's parts of the chunks that it is in charge of, and the sites' of those that it owns.
TEST(Schedules, HierarchicalPutsAsideNoMoreThanItSaysWithTheLargestShare) {
  for (std::uint32_t size = 1; size <= 16; ++size) {
    for (std::uint32_t count = 2; count * size <= 64; ++count) {
      std::vector<std::uint32_t> sites;
      for (std::uint32_t rank = 0; rank < count * size; ++rank) sites.push_back(rank / size);
      std::vector<std::uint32_t> shares(count, 0);
      std::uint32_t left = kWholeShare;
      for (std::uint32_t& share : shares) left -= share = std::min(left, SiteShareMax(count));
      const Schedule schedule =
          MakeSchedule(OpKind::kAllReduce, Algorithm::kHierarchical,
                       {.ring = Identity(count * size), .sites = sites, .site_shares = shares}, Rank(0));
      std::uint64_t aside = 0;
      for (const Sum& sum : schedule.sums) {
        if (sum.order.size() > 2) aside += (sum.order.size() - 2) * schedule.weights[sum.chunk];
      }
      EXPECT_LE(aside, ReorderBytesMax(Algorithm::kHierarchical, count * size, std::uint64_t{kWholeShare} * size))
          << count << " sites of " << size;
    }
  }
}

// Two sites of four: each sends every byte out once less what it finishes itself, and its members share that evenly.
TEST(Schedules, HierarchicalCrossesBetweenSitesAsLittleAsCanBe) {
  const std::vector<std::uint32_t> sites = {0, 0, 0, 0, 1, 1, 1, 1};
  for (std::uint32_t rank = 0; rank < 8; ++rank) {
    const Schedule schedule =
        MakeSchedule(OpKind::kAllReduce, Algorithm::kHierarchical, {.ring = Identity(8), .sites = sites}, Rank(rank));
    const auto across = std::count_if(schedule.departures.begin(), schedule.departures.end(),
                                      [&](const Departure& d) { return sites[d.to.value] != sites[rank]; });
    // A site sends 2 (sites - 1) / sites of the buffer in all; a member a quarter of that.
    EXPECT_DOUBLE_EQ(static_cast<double>(across) / schedule.chunks(), 1.0 / 4);
  }
}

TEST(ScheduleTest, EveryCollectiveHasAnAlgorithmWhateverIsPlanned) {
  for (std::uint8_t kind = 0; kind < kOpKindCount; ++kind) {
    for (std::uint8_t planned = 0; planned < kAlgorithmCount; ++planned) {
      const auto collective = static_cast<OpKind>(kind);
      EXPECT_TRUE(HasAlgorithm(collective, AlgorithmFor(collective, static_cast<Algorithm>(planned))))
          << NameOf(collective) << " as " << NameOf(static_cast<Algorithm>(planned));
    }
  }
}

}  // namespace
}  // namespace ringway::collective
