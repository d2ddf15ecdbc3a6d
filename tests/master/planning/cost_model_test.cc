#include "master/planning/cost_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "master/planning/ring_order.h"
#include "tests/master/planning/path_worlds.h"
#include "tests/master/planning/textbook.h"
#include "tests/sanitized.h"

namespace ringway {
namespace {

constexpr std::uint64_t kAnySize = std::numeric_limits<std::uint64_t>::max();

CostModel ModelOf(const PathMatrix& paths, const CostOptions& options = {}) {
  return CostModel(paths, {.ring = FindRing(paths).order}, options);
}

constexpr CostOptions kNoDone = {.retained_bytes_max = kAnySize};  // no exchange of DONE

// Random paths, uplinks and downlinks between the slowest and the fastest of them.
PathMatrix RandomWan(std::size_t peers, std::uint64_t seed) {
  PathMatrix paths = RandomWorld(peers, seed);
  std::mt19937_64 random(seed);
  for (std::size_t peer = 0; peer < peers; ++peer) {
    paths.set_uplink(peer, 10e6 + static_cast<double>(random() % 90'000'000));
    paths.set_downlink(peer, 10e6 + static_cast<double>(random() % 90'000'000));
  }
  return paths;
}

template <typename Check>
void ForEachRandomWan(const Check& check) {
  for (const std::size_t peers : {2U, 3U, 4U, 7U, 8U}) {
    for (std::uint64_t seed = 1; seed <= TurnsOf(20); ++seed) {
      SCOPED_TRACE(std::to_string(peers) + " peers, seed " + std::to_string(seed));
      check(RandomWan(peers, seed));
    }
  }
}

TEST(CostModel, ChunksOfOneSegmentOnLinksAllAlikeCostWhatTheTextbookSays) {
  constexpr double kDelay = 0.050;
  constexpr double kRate = 50e6;
  for (std::size_t peers = 2; peers <= 9; ++peers) {
    const CostModel model = ModelOf(UniformWorld(peers, kDelay, kRate), kNoDone);
    for (const Algorithm algorithm : kAlgorithms) {
      if (algorithm == Algorithm::kTwoRings || algorithm == Algorithm::kNaive) continue;
      const bool is_tree = algorithm == Algorithm::kTree;
      if (is_tree && (peers & (peers - 1)) != 0) continue;  // the textbook counts a full tree's levels
      const UniformLink link = {.delay = kDelay, .seconds_per_byte = 1 / kRate};
      // Chunks are whole blocks, and cut-through saves some bytes' time.
      const double textbook = TextbookSeconds(algorithm, peers, 16 * kKiB, link);
      EXPECT_NEAR(model.Seconds(algorithm, 16 * kKiB), textbook, 3e-3 * textbook)
          << peers << " peers, algorithm " << static_cast<int>(algorithm);
    }
  }
}

TEST(CostModel, LargeSizesOnLinksAllAlikeTakeTheLineAndOneDelay) {
  const CostModel model = ModelOf(UniformWorld(4, 0.050, 50e6), kNoDone);
  const double line = 1.5 * 64 * kMiB / 50e6;  // bytes that each peer sends
  EXPECT_NEAR(model.Seconds(Algorithm::kRing, 64 * kMiB), line + 0.050, 1e-9);
  EXPECT_NEAR(model.Seconds(Algorithm::kTwoRings, 64 * kMiB), line + 0.050, 1e-9);
  EXPECT_NEAR(model.Seconds(Algorithm::kDirect, 64 * kMiB), line + 0.050, 1e-9);
  EXPECT_NEAR(model.Seconds(Algorithm::kHalvingDoubling, 64 * kMiB), line + 0.050, 1e-9);
}

TEST(CostModel, MediumSizesHideTheDelaysThatBytesCover) {
  const CostModel model = ModelOf(UniformWorld(4, 0.050, 50e6), kNoDone);
  const double chunk = kMiB / 50e6;
  const double segment = 0.25 * chunk;
  EXPECT_NEAR(model.Seconds(Algorithm::kRing, 4 * kMiB), 5 * (0.050 + segment) + chunk + 0.050, 1e-9);
  EXPECT_NEAR(model.Seconds(Algorithm::kRing, kMiB), 5 * (0.050 + segment / 4) + chunk / 4 + 0.050, 1e-9);
  EXPECT_NEAR(model.Seconds(Algorithm::kDirect, 4 * kMiB), 3 * chunk + 2 * 0.050 + 3 * segment, 1e-9);
  // The root waits for three times the buffer on its downlink; then its last segment goes to three.
  EXPECT_NEAR(model.Seconds(Algorithm::kNaive, kMiB), 3 * chunk + 2 * 0.050 + 3 * segment, 1e-9);
}

TEST(CostModel, TwoPeersPayThePathTwiceWhenARootCombinesOneSegment) {
  PathMatrix paths = UniformWorld(2, 0.050, 50e6);
  paths.set_rate(0, 1, 1e6);
  const double there = 0.050 + 16 * kKiB / 50e6;
  const double back = 0.050 + 16 * kKiB / 1e6;
  EXPECT_NEAR(ModelOf(paths).Seconds(Algorithm::kNaive, 16 * kKiB), there + back, 1e-9);
  EXPECT_NEAR(ModelOf(paths).Seconds(Algorithm::kTree, 16 * kKiB), there + back, 1e-9);
}

// Segment by segment: one goes when it is there and its link is free.
double SimulateRing(const PathMatrix& paths, const std::vector<std::uint32_t>& ring, std::size_t segments,
                    double segment) {
  const std::size_t peers = ring.size();
  std::vector<double> link_free(peers);
  std::vector<std::vector<double>> there(peers, std::vector<double>(segments));  // at the start of each link
  double last = 0;
  for (std::size_t step = 0; step < 2 * (peers - 1); ++step) {
    std::vector<std::vector<double>> there_next(peers, std::vector<double>(segments));
    for (std::size_t place = 0; place < peers; ++place) {
      const std::uint32_t from = ring[place];
      const std::uint32_t to = ring[(place + 1) % peers];
      for (std::size_t i = 0; i < segments; ++i) {
        link_free[place] = std::max(link_free[place], there[place][i]) + segment / paths.LinkRate(from, to);
        there_next[(place + 1) % peers][i] = link_free[place] + paths.delay(from, to);
        last = std::max(last, there_next[(place + 1) % peers][i]);
      }
    }
    there = there_next;
  }
  return last;
}

TEST(CostModel, ARingTakesAsLongAsSegmentsThatWaitForTheirLinks) {
  for (std::uint64_t segments : {1, 4, 16}) {  // of a chunk, as the grid cuts it
    const std::uint64_t segment = segments == 1 ? 4 * kKiB : (segments == 4 ? 128 * kKiB : 256 * kKiB);
    ForEachRandomWan([&](PathMatrix paths) {
      for (std::size_t peer = 0; peer < paths.size(); ++peer) paths.set_site(peer, 0);  // a ring may leave one often
      const std::vector<std::uint32_t> ring = FindRing(paths).order;
      const double simulated = SimulateRing(paths, ring, segments, static_cast<double>(segment));
      const double predicted =
          CostModel(paths, {.ring = ring}, kNoDone).Seconds(Algorithm::kRing, paths.size() * segments * segment);
      EXPECT_GE(predicted, simulated * (1 - 1e-9));
      EXPECT_LE(predicted, simulated * 1.1);
    });
  }
}

// Segment by segment over equal uplinks: first the parts to their owners, round robin, then the sums as they are ready.
double SimulateDirect(const PathMatrix& paths, std::size_t segments, double segment) {
  const std::size_t peers = paths.size();
  const double sending = segment / paths.uplink(0);
  std::vector<std::vector<double>> combined(peers, std::vector<double>(segments));  // by owner
  for (std::size_t from = 0; from < peers; ++from) {
    double uplink_free = 0;
    for (std::size_t i = 0; i < segments; ++i) {
      for (std::size_t hop = 1; hop < peers; ++hop) {
        const std::size_t owner = (from + hop) % peers;
        uplink_free += sending;
        combined[owner][i] = std::max(combined[owner][i], uplink_free + paths.delay(from, owner));
      }
    }
  }
  double last = 0;
  for (std::size_t owner = 0; owner < peers; ++owner) {
    double uplink_free = sending * static_cast<double>(segments * (peers - 1));
    for (const double ready : combined[owner]) {
      uplink_free = std::max(uplink_free, ready);
      for (std::size_t hop = 1; hop < peers; ++hop) {
        const std::size_t to = (owner + hop) % peers;
        uplink_free += sending;
        last = std::max(last, uplink_free + paths.delay(owner, to));
      }
    }
  }
  return last;
}

TEST(CostModel, DirectTakesAsLongAsSegmentsThatWaitForTheirUplink) {
  for (const std::size_t peers : {2U, 4U, 8U}) {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      PathMatrix paths = UniformWorld(peers, 0, 50e6);
      const PathMatrix delays = RandomWorld(peers, seed);
      ForEachPath(peers, [&](auto from, auto to) { paths.set_delay(from, to, delays.delay(from, to)); });
      for (const std::uint64_t chunk : {16 * kKiB, 256 * kKiB, 4 * kMiB}) {
        const std::uint64_t segment = std::clamp<std::uint64_t>(chunk / 4, 16 * kKiB, 256 * kKiB);
        const double simulated = SimulateDirect(paths, chunk / segment, static_cast<double>(segment));
        const double predicted = ModelOf(paths, kNoDone).Seconds(Algorithm::kDirect, chunk * peers);
        EXPECT_GE(predicted, simulated * 0.93) << peers << " peers, seed " << seed << ", chunks of " << chunk;
        EXPECT_LE(predicted, simulated * 1.1) << peers << " peers, seed " << seed << ", chunks of " << chunk;
      }
    }
  }
}

TEST(CostModel, TheExchangeOfDoneCostsTheLongestDelayAboveTheSmallSizes) {
  PathMatrix paths = UniformWorld(4, 0.010, 50e6);
  paths.set_delay(2, 1, 0.070);
  const CostModel with = ModelOf(paths);
  const CostModel without = ModelOf(paths, kNoDone);
  for (const Algorithm algorithm : kAlgorithms) {
    EXPECT_EQ(with.Seconds(algorithm, 64 * kKiB), without.Seconds(algorithm, 64 * kKiB));
    EXPECT_NEAR(with.Seconds(algorithm, 64 * kKiB + 1), without.Seconds(algorithm, 64 * kKiB + 1) + 0.070, 1e-12);
  }
}

TEST(CostModel, OnePeerCostsNothing) {
  const CostModel model = ModelOf(PathMatrix(1));
  for (const Algorithm algorithm : kAlgorithms) EXPECT_EQ(model.Seconds(algorithm, 64 * kMiB), 0);
  EXPECT_EQ(model.BuildTable(), (std::vector<TableEntry>{{}}));
}

// One segment more may do for a moment what more bytes cost.
TEST(CostModel, HardlyFallsAsBytesGrow) {
  ForEachRandomWan([](const PathMatrix& paths) {
    const CostModel model = ModelOf(paths);
    for (const Algorithm algorithm : kAlgorithms) {
      double last = 0;
      for (std::uint64_t bytes = 0; bytes <= 64 * kMiB; bytes = bytes * 5 / 4 + 1) {
        const double seconds = model.Seconds(algorithm, bytes);
        EXPECT_GE(seconds, 0.88 * last) << bytes << " bytes, algorithm " << static_cast<int>(algorithm);
        last = seconds;
      }
    }
  });
}

// The least part of the buffer that each peer sends.
double SentByEach(Algorithm algorithm, std::size_t peers) {
  const auto count = static_cast<double>(peers);
  switch (algorithm) {
    case Algorithm::kRing:
    case Algorithm::kTwoRings:
    case Algorithm::kDirect:
      return 2 * (count - 1) / count;
    case Algorithm::kOneShot:
      return count - 1;
    default:
      return 1;
  }
}

TEST(CostModel, NothingIsFasterThanTheBusiestUplinkAndLight) {
  ForEachRandomWan([](const PathMatrix& paths) {
    const CostModel model = ModelOf(paths, kNoDone);
    for (const Algorithm algorithm : kAlgorithms) {
      for (const std::uint64_t bytes : {std::uint64_t{0}, kKiB, kMiB, 64 * kMiB}) {
        for (std::size_t peer = 0; peer < paths.size(); ++peer) {
          const double sent = SentByEach(algorithm, paths.size()) * static_cast<double>(bytes);
          EXPECT_GE(model.Seconds(algorithm, bytes) * 1.001, sent / paths.uplink(peer) + 0.001)
              << bytes << " bytes, algorithm " << static_cast<int>(algorithm);
        }
      }
    }
  });
}

TEST(CostModel, SlowerInEverythingIsSlowerAsMuch) {
  ForEachRandomWan([](const PathMatrix& paths) {
    PathMatrix slower = paths;
    ForEachPath(paths.size(), [&](std::uint32_t from, std::uint32_t to) {
      slower.set_delay(from, to, paths.delay(from, to) * 3);
      slower.set_rate(from, to, paths.rate(from, to) / 3);
    });
    for (std::size_t peer = 0; peer < paths.size(); ++peer) {
      slower.set_uplink(peer, paths.uplink(peer) / 3);
      slower.set_downlink(peer, paths.downlink(peer) / 3);
    }
    for (const Algorithm algorithm : kAlgorithms) {
      const double seconds = ModelOf(paths).Seconds(algorithm, 10 * kMiB);
      // Where two segments are ready at once, rounding may turn them around.
      EXPECT_NEAR(ModelOf(slower).Seconds(algorithm, 10 * kMiB), 3 * seconds, 0.05 * seconds);
    }
  });
}

// A segment that comes earlier may take its turn before one that was more urgent.
TEST(CostModel, AnythingFasterHardlySlowsAnythingDown) {
  ForEachRandomWan([](const PathMatrix& paths) {
    const std::vector<std::uint32_t> ring = FindRing(paths).order;
    const CostModel model(paths, {.ring = ring});
    const auto expect_no_slower = [&](const PathMatrix& faster) {
      for (const Algorithm algorithm : kAlgorithms) {
        EXPECT_LE(CostModel(faster, {.ring = ring}).Seconds(algorithm, kMiB), model.Seconds(algorithm, kMiB) * 1.12)
            << "algorithm " << static_cast<int>(algorithm);
      }
    };
    ForEachPath(paths.size(), [&](std::uint32_t from, std::uint32_t to) {
      PathMatrix faster = paths;
      faster.set_rate(from, to, paths.rate(from, to) * 1.5);
      faster.set_delay(from, to, paths.delay(from, to) * 0.7);
      expect_no_slower(faster);
    });
    for (std::size_t peer = 0; peer < paths.size(); ++peer) {
      PathMatrix faster = paths;
      faster.set_uplink(peer, paths.uplink(peer) * 1.5);
      faster.set_downlink(peer, paths.downlink(peer) * 1.5);
      expect_no_slower(faster);
    }
  });
}

TEST(CostModel, NamesOfPeersDoNotMatter) {
  ForEachRandomWan([](const PathMatrix& paths) {
    const auto peers = static_cast<std::uint32_t>(paths.size());
    const auto renamed = [peers](std::uint32_t peer) { return (peer + 1) % peers; };
    PathMatrix other(peers);
    ForEachPath(peers, [&](std::uint32_t from, std::uint32_t to) {
      other.set_delay(renamed(from), renamed(to), paths.delay(from, to));
      other.set_rate(renamed(from), renamed(to), paths.rate(from, to));
    });
    std::vector<std::uint32_t> ring = FindRing(paths).order;
    const CostModel model(paths, {.ring = ring});
    for (std::uint32_t& peer : ring) peer = renamed(peer);
    for (std::uint32_t peer = 0; peer < peers; ++peer) {
      other.set_site(renamed(peer), paths.site(peer));
      other.set_uplink(renamed(peer), paths.uplink(peer));
      other.set_downlink(renamed(peer), paths.downlink(peer));
    }
    const CostModel other_model(other, {.ring = ring});
    // The others go by rank.
    for (const Algorithm algorithm :
         {Algorithm::kRing, Algorithm::kTwoRings, Algorithm::kDirect, Algorithm::kOneShot}) {
      const double seconds = model.Seconds(algorithm, kMiB);
      EXPECT_NEAR(other_model.Seconds(algorithm, kMiB), seconds, 0.1 * seconds)
          << "algorithm " << static_cast<int>(algorithm);
    }
  });
}

TEST(CostModel, ARingThatAvoidsTheSlowLinkCostsAsIfThereWereNone) {
  PathMatrix paths = UniformWorld(4, 0.050, 50e6);
  const double without = ModelOf(paths).Seconds(Algorithm::kRing, 64 * kMiB);
  const double direct_without = ModelOf(paths).Seconds(Algorithm::kDirect, 64 * kMiB);
  paths.set_rate(0, 1, 1e6);
  EXPECT_NEAR(ModelOf(paths).Seconds(Algorithm::kRing, 64 * kMiB), without, 1e-9);
  EXPECT_GT(ModelOf(paths).Seconds(Algorithm::kDirect, 64 * kMiB), 5 * direct_without) << "it loads every path";
  EXPECT_EQ(ModelOf(paths).Best(64 * kMiB), Algorithm::kRing);
}

TEST(CostModel, OneLongLinkAddsItsDelayToTheLineOfARing) {
  PathMatrix paths = UniformWorld(4, 0.001, 50e6);
  for (std::size_t other = 0; other < 3; ++other) {
    paths.set_delay(3, other, 0.500);
    paths.set_delay(other, 3, 0.500);
  }
  // Five of six chunks of 0.336 s wait for a link, while the head passes one long link and ends on the other.
  const double chunk = 16 * kMiB / 50e6;
  const double segment = 256 * kKiB / 50e6;
  EXPECT_NEAR(ModelOf(paths, kNoDone).Seconds(Algorithm::kRing, 64 * kMiB), 2 * 0.500 + segment + 5 * chunk, 0.02);
}

TEST(CostModel, AHeadThatLeftASlowLinkWaitsForTheRestOfItsChunk) {
  PathMatrix paths = UniformWorld(2, 0.001, 50e6);
  paths.set_rate(0, 1, 10e6);
  paths.set_delay(1, 0, 0.500);
  const double chunk = kMiB / 10e6;
  EXPECT_NEAR(ModelOf(paths, kNoDone).Seconds(Algorithm::kRing, 2 * kMiB), 0.001 + chunk / 4 + chunk + 0.500,
              chunk / 4);
}

double GainOfTwoRings(const PathMatrix& paths) {
  const CostModel model = ModelOf(paths);
  return model.Seconds(Algorithm::kRing, 256 * kMiB) / model.Seconds(Algorithm::kTwoRings, 256 * kMiB);
}

TEST(CostModel, TwoRingsGainWherePathsAreTheLimitAndNotWhereTheEndsAre) {
  for (const double ends : {10e6, 15e6, 20e6, 100e6}) {
    PathMatrix thin_uplinks = UniformWorld(4, 0.001, 100e6);
    ForEachPath(4, [&](std::uint32_t from, std::uint32_t to) { thin_uplinks.set_rate(from, to, 10e6); });
    PathMatrix thin_downlinks = thin_uplinks;
    for (std::size_t peer = 0; peer < 4; ++peer) {
      thin_uplinks.set_uplink(peer, ends);
      thin_downlinks.set_downlink(peer, ends);
    }
    EXPECT_NEAR(GainOfTwoRings(thin_uplinks), std::min(ends / 10e6, 2.0), 0.01) << ends;
    EXPECT_NEAR(GainOfTwoRings(thin_downlinks), std::min(ends / 10e6, 2.0), 0.01) << ends;
  }
}

TEST(CostModel, TwoRingsOfTwoPeersShareThePath) {
  PathMatrix paths = UniformWorld(2, 0.001, 100e6);
  paths.set_rate(0, 1, 10e6);
  paths.set_rate(1, 0, 10e6);
  EXPECT_NEAR(GainOfTwoRings(paths), 1, 0.01);
}

TEST(CostModel, TwoRingsAreAsSlowAsTheSlowerWayRound) {
  PathMatrix paths = UniformWorld(3, 0.001, 50e6);
  paths.set_rate(0, 2, 5e6);
  EXPECT_EQ(FindRing(paths).order, (std::vector<std::uint32_t>{0, 1, 2}));
  EXPECT_NEAR(GainOfTwoRings(paths), 0.2, 0.01);
}

TEST(CostModel, PathsMeasuredOneByOneShareTheUplinkThatNobodyMeasured) {
  PathMatrix paths(4);
  ForEachPath(4, [&](std::uint32_t from, std::uint32_t to) {
    paths.set_delay(from, to, 0.010);
    paths.set_rate(from, to, 50e6);
  });
  const double line = 1.5 * 64 * kMiB / 50e6;
  EXPECT_GE(ModelOf(paths).Seconds(Algorithm::kDirect, 64 * kMiB), line);
}

TEST(CostModel, AFatRootServesThinLeavesWithHalfOfWhatARingSends) {
  PathMatrix paths = UniformWorld(8, 0.005, 5e6);
  paths.set_uplink(0, 1e9);
  paths.set_downlink(0, 1e9);
  const CostModel model = ModelOf(paths);
  EXPECT_EQ(model.Best(64 * kMiB), Algorithm::kNaive);
  EXPECT_LT(model.Seconds(Algorithm::kNaive, 64 * kMiB), 0.62 * model.Seconds(Algorithm::kRing, 64 * kMiB));
  PathMatrix other_root = UniformWorld(8, 0.005, 5e6);
  other_root.set_uplink(3, 1e9);
  other_root.set_downlink(3, 1e9);
  EXPECT_NE(ModelOf(other_root).Best(64 * kMiB), Algorithm::kNaive) << "rank 0 is the root";
}

// One-way milliseconds between Frankfurt, London, New York, San Francisco, Sao Paulo, Mumbai, Singapore, Sydney.
constexpr double kGlobe[8][8] = {{0, 7, 41, 74, 101, 56, 78, 141},    {7, 0, 36, 69, 94, 58, 83, 135},
                                 {41, 36, 0, 35, 57, 93, 112, 101},   {74, 69, 35, 0, 88, 113, 85, 70},
                                 {101, 94, 57, 88, 0, 150, 164, 157}, {56, 58, 93, 113, 150, 0, 28, 75},
                                 {78, 83, 112, 85, 164, 28, 0, 46},   {141, 135, 101, 70, 157, 75, 46, 0}};

PathMatrix Globe() {
  PathMatrix paths = UniformWorld(8, 0, 50e6);
  ForEachPath(8, [&](std::uint32_t from, std::uint32_t to) { paths.set_delay(from, to, kGlobe[from][to] / 1e3); });
  return paths;
}

const PathMatrix& Wan() {
  static const PathMatrix kWan = UniformWorld(4, 0.050, 50e6);
  return kWan;
}

const PathMatrix& Lan() {
  static const PathMatrix kLan = UniformWorld(4, 50e-6, 1.25e9);
  return kLan;
}

Algorithm LookUp(const std::vector<TableEntry>& table, std::uint64_t bytes) {
  return std::find_if(table.begin(), table.end(),
                      [bytes](const TableEntry& entry) { return bytes <= entry.bytes_upto; })
      ->algorithm;
}

TEST(CostTable, SaysForEverySizeOfItsGridWhatIsCheapest) {
  for (const PathMatrix& paths : {Wan(), Lan(), Globe(), RandomWan(5, 1), RandomWan(9, 2)}) {
    const CostModel model = ModelOf(paths);
    const std::vector<TableEntry> table = model.BuildTable();
    for (std::uint64_t bytes = kKiB; bytes <= 1024 * kMiB; bytes *= 2) {
      EXPECT_EQ(LookUp(table, bytes), model.Best(bytes)) << bytes;
      if (bytes == kKiB) continue;
      const Algorithm smaller = LookUp(table, bytes / 2);
      const std::uint64_t between = bytes * 3 / 4;
      EXPECT_TRUE(LookUp(table, between) == smaller || LookUp(table, between) == LookUp(table, bytes)) << between;
    }
    EXPECT_EQ(table.back().bytes_upto, kAnySize);
    for (std::size_t i = 1; i < table.size(); ++i) {
      EXPECT_LT(table[i - 1].bytes_upto, table[i].bytes_upto);
      EXPECT_NE(table[i - 1].algorithm, table[i].algorithm);
    }
  }
}

TEST(CostTable, OfAWanBeginsWithOneShotAtTheSpeedOfLight) {
  const CostModel model = ModelOf(Wan());
  EXPECT_EQ(model.Best(4 * kKiB), Algorithm::kOneShot);
  EXPECT_LT(model.Seconds(Algorithm::kOneShot, 4 * kKiB), 1.01 * 0.050);
}

// Three buffers on every uplink, and half as many before them, take less than the delay that direct has more.
TEST(CostTable, OfAWanHasOneShotAsLongAsItsBytesTakeLessThanADelay) {
  const CostModel model = ModelOf(Wan());
  EXPECT_EQ(model.Best(512 * kKiB), Algorithm::kOneShot);
  EXPECT_NEAR(model.Seconds(Algorithm::kOneShot, kMiB), 2 * 0.050 + 3 * kMiB / 50e6, 1e-9);
  EXPECT_EQ(model.Best(2 * kMiB), Algorithm::kDirect);
}

TEST(CostTable, OfAWanEndsNearTheLine) {
  const CostModel model = ModelOf(Wan());
  const Algorithm cheapest = model.Best(64 * kMiB);
  EXPECT_TRUE(cheapest == Algorithm::kRing || cheapest == Algorithm::kDirect);
  EXPECT_LT(model.Seconds(cheapest, 64 * kMiB), 1.06 * 1.5 * 64 * kMiB / 50e6);
}

TEST(CostTable, KeepsTheRingUntilAnotherIsOverAPercentCheaper) {
  const CostModel model = ModelOf(Wan());
  EXPECT_LT(model.Seconds(Algorithm::kDirect, 11'000'000), model.Seconds(Algorithm::kRing, 11'000'000));
  EXPECT_EQ(model.Best(11'000'000), Algorithm::kRing);
  EXPECT_EQ(model.Best(8'000'000), Algorithm::kDirect);
}

TEST(CostTable, OfALocalNetworkPrefersTheRingForLargeSizesOnly) {
  const CostModel model = ModelOf(Lan());
  EXPECT_EQ(model.Best(4 * kKiB), Algorithm::kOneShot);
  EXPECT_EQ(model.Best(256 * kKiB), Algorithm::kDirect);
  EXPECT_EQ(model.Best(64 * kMiB), Algorithm::kRing) << "as fast as direct, with fewer flows";
}

TEST(CostTable, OfTheGlobeSendsDirectWhatARingWouldCarryAroundTwice) {
  const CostModel model = ModelOf(Globe());
  EXPECT_EQ(model.Best(4 * kKiB), Algorithm::kOneShot);
  EXPECT_EQ(model.Best(kMiB), Algorithm::kDirect) << "many in flight would wait four times as long for one_shot";
  EXPECT_LT(model.Seconds(Algorithm::kOneShot, kMiB), model.Seconds(Algorithm::kDirect, kMiB)) << "a lone one does not";
  EXPECT_EQ(model.Best(4 * kMiB), Algorithm::kDirect);
  EXPECT_GT(model.Seconds(Algorithm::kRing, 4 * kMiB), 1.5 * model.Seconds(Algorithm::kDirect, 4 * kMiB));
}

TEST(CostTable, HasOneShotUpToTheEagerWindowEvenWhereLargerOnesWouldGain) {
  const CostModel model = ModelOf(UniformWorld(2, 1.0, 1e9), {.eager_bytes_max = 2 * kMiB});
  const std::vector<TableEntry> table = model.BuildTable();
  EXPECT_EQ(table.front(), (TableEntry{.bytes_upto = 2 * kMiB, .algorithm = Algorithm::kOneShot}));
  for (std::size_t i = 1; i < table.size(); ++i) EXPECT_NE(table[i].algorithm, Algorithm::kOneShot);
}

}  // namespace
}  // namespace ringway
