#include "master/planning/ring_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>

#include "master/planning/cost_model.h"
#include "master/planning/ring_exact.h"
#include "master/planning/ring_search.h"
#include "tests/master/planning/path_worlds.h"

namespace ringway {
namespace {

using Order = std::vector<std::uint32_t>;

Order Identity(std::size_t peers) {
  Order order(peers);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

template <typename Visit>
void ForEachLinkOf(const Order& ring, const Visit& visit) {
  for (std::size_t i = 0; i < ring.size(); ++i) visit(ring[i], ring[(i + 1) % ring.size()]);
}

int Crossings(const PathMatrix& paths, const Order& ring) {
  int crossings = 0;
  ForEachLinkOf(ring, [&](auto from, auto to) { crossings += paths.site(from) != paths.site(to) ? 1 : 0; });
  return crossings;
}

// The criteria by which a ring of a RandomWorld is judged, the lower the better.
using Merit = std::tuple<int, long, int, Order>;

Merit MeritOf(const PathMatrix& paths, const Order& ring) {
  int rate_class = 0;
  long delay_ms = 0;
  ForEachLinkOf(ring, [&](auto from, auto to) {
    rate_class = std::max(rate_class, ClassOfRate(paths.rate(from, to)));
    delay_ms += std::lround(paths.delay(from, to) * 1e3);
  });
  return {rate_class, delay_ms, Crossings(paths, ring), ring};
}

Merit BestOfAll(const PathMatrix& paths) {
  Order ring = Identity(paths.size());
  Merit best = MeritOf(paths, ring);
  while (std::next_permutation(ring.begin() + 1, ring.end())) best = std::min(best, MeritOf(paths, ring));
  return best;
}

TEST(RingOrder, UpToSevenPeersIsTheBestOfAllPermutations) {
  for (std::size_t peers = 2; peers <= 7; ++peers) {
    for (std::uint64_t seed = 1; seed <= 60; ++seed) {
      const PathMatrix paths = RandomWorld(peers, seed);
      EXPECT_EQ(MeritOf(paths, FindRing(paths).order), BestOfAll(paths)) << peers << " peers, seed " << seed;
    }
  }
}

TEST(RingOrder, OnePeerIsARingWithoutLinks) {
  const Ring ring = FindRing(PathMatrix(1));
  EXPECT_EQ(ring.order, Order{0});
  EXPECT_EQ(ring.rate, 0);
  EXPECT_EQ(ring.delay_seconds, 0);
}

TEST(RingOrder, GoesTheWayRoundThatIsFast) {
  PathMatrix paths = UniformWorld(5, 0.010, 10e6);
  const Order fast = {0, 3, 1, 4, 2};
  ForEachPath(5, [&](std::size_t from, std::size_t to) { paths.set_rate(from, to, 5e6); });
  ForEachLinkOf(fast, [&](auto from, auto to) { paths.set_rate(from, to, 10e6); });
  EXPECT_EQ(FindRing(paths).order, fast);
}

TEST(RingOrder, SixteenPeersFindTheOnlyFastRingThereIs) {
  PathMatrix paths = UniformWorld(16, 0.010, 10e6);
  Order fast = Identity(16);
  for (std::size_t i = 1; i < 16; ++i) fast[i] = static_cast<std::uint32_t>(i * 7 % 16);
  ForEachPath(16, [&](std::size_t from, std::size_t to) { paths.set_rate(from, to, 1e6); });
  ForEachLinkOf(fast, [&](auto from, auto to) {
    paths.set_rate(from, to, 8e6);
    paths.set_delay(from, to, 0.500);
  });
  const Ring ring = FindRing(paths);
  EXPECT_EQ(ring.order, fast);
  EXPECT_EQ(ring.rate, 8e6);
  EXPECT_NEAR(ring.delay_seconds, 16 * 0.5, 1e-9);
}

TEST(RingOrder, NamesTheSlowestLinkAsItsBottleneck) {
  PathMatrix paths = UniformWorld(3, 0.010, 10e6);
  paths.set_uplink(2, 3e6);
  EXPECT_EQ(FindRing(paths).rate, 3e6);
  EXPECT_EQ(FindRing(paths).bottleneck, (RingLink{.from = 2, .to = 0}));
  EXPECT_EQ(MeasureRing(paths, Order{2, 1, 0}).bottleneck, (RingLink{.from = 2, .to = 1}));
  EXPECT_EQ(MeasureRing(paths, Order{2, 1, 0}).order, (Order{0, 2, 1})) << "turned to start with 0";
  EXPECT_EQ(FindRing(UniformWorld(3, 0.010, 10e6)).bottleneck, (RingLink{.from = 0, .to = 1})) << "the first of equals";
}

TEST(RingOrder, AvoidsOneSlowLinkAtNoCost) {
  for (const std::size_t peers : {4U, 8U, 16U, 20U, 40U}) {
    PathMatrix paths = UniformWorld(peers, 0.050, 50e6);
    const double without = FindRing(paths).rate;
    paths.set_rate(0, 1, 1e6);
    paths.set_rate(peers - 1, 0, 1e6);
    EXPECT_EQ(FindRing(paths).rate, without) << peers << " peers";
  }
}

TEST(RingOrder, NoiseOfRatesDoesNotDecide) {
  const PathMatrix quiet = RandomWorld(8, 3);
  PathMatrix noisy = quiet;
  std::mt19937_64 random(1);
  ForEachPath(8, [&](std::size_t from, std::size_t to) {
    const double noise = 0.95 + 0.05 * static_cast<double>(random() % 100) / 100;
    noisy.set_rate(from, to, RateOfClass(ClassOfRate(quiet.rate(from, to))) * noise);
  });
  ASSERT_NE(MeasureRing(noisy, Identity(8)).rate, MeasureRing(quiet, Identity(8)).rate);
  EXPECT_EQ(FindRing(noisy).order, FindRing(quiet).order);
}

TEST(RingOrder, RatesTenPercentApartDecideOverDelay) {
  PathMatrix paths = UniformWorld(4, 0.010, 100e6);
  ForEachLinkOf({0, 1, 2, 3}, [&](auto from, auto to) {
    paths.set_delay(from, to, 0.001);
    paths.set_rate(from, to, 92e6);
  });
  EXPECT_EQ(FindRing(paths).order, (Order{0, 1, 2, 3})) << "8% slower counts as equal";
  ForEachLinkOf({0, 1, 2, 3}, [&](auto from, auto to) { paths.set_rate(from, to, 88e6); });
  EXPECT_NE(FindRing(paths).order, (Order{0, 1, 2, 3})) << "12% slower does not";
}

TEST(RingOrder, UnitsDoNotMatter) {
  for (const std::size_t peers : {9U, 18U}) {
    const PathMatrix paths = RandomWorld(peers, 5);
    PathMatrix scaled = paths;
    ForEachPath(peers, [&](std::size_t from, std::size_t to) {
      scaled.set_rate(from, to, paths.rate(from, to) * 16);
      scaled.set_delay(from, to, paths.delay(from, to) * 3);
    });
    EXPECT_EQ(FindRing(paths).order, FindRing(scaled).order);
  }
}

// Peers of the sites in turn: the order of ranks crosses with every link.
PathMatrix ScatteredSites(std::size_t peers, std::uint32_t sites) {
  PathMatrix paths(peers);
  for (std::size_t peer = 0; peer < peers; ++peer) paths.set_site(peer, static_cast<std::uint32_t>(peer) % sites);
  return paths;
}

TEST(RingOrder, KeepsSitesTogetherWhereNothingIsKnown) {
  for (const std::size_t peers : {6U, 12U, 16U, 18U, 48U}) {
    const PathMatrix paths = ScatteredSites(peers, 3);
    EXPECT_EQ(Crossings(paths, FindRing(paths).order), 3) << peers << " peers";
  }
}

TEST(RingOrder, KeepsSitesTogetherByDelay) {
  for (const std::size_t peers : {8U, 32U}) {
    PathMatrix paths = ScatteredSites(peers, 2);
    ForEachPath(peers, [&](std::size_t from, std::size_t to) {
      paths.set_delay(from, to, paths.site(from) == paths.site(to) ? 0.001 : 0.040);
    });
    const Ring ring = FindRing(paths);
    EXPECT_EQ(Crossings(paths, ring.order), 2) << peers << " peers";
    EXPECT_NEAR(ring.delay_seconds, static_cast<double>(peers - 2) * 0.001 + 0.080, 1e-9) << peers << " peers";
  }
}

TEST(RingOrder, ManyPeersGiveAPermutationAndAlwaysTheSame) {
  for (const std::size_t peers : {17U, 33U, 100U}) {
    const PathMatrix paths = RandomWorld(peers, peers);
    const Order order = FindRing(paths).order;
    Order sorted = order;
    std::sort(sorted.begin(), sorted.end());
    EXPECT_EQ(sorted, Identity(peers));
    EXPECT_EQ(order.front(), 0U);
    EXPECT_EQ(order, FindRing(paths).order);
    EXPECT_LE(std::get<0>(MeritOf(paths, order)), kRateClasses / 2 - 1) << "half of all links is as good";
  }
}

// Sites of six peers, all links 10 ms; class 0 inside a site, `class_between(from site, to site)` else. Inside a site
// there is also a way from rank to rank of 1 ms and `class_of_short`.
template <typename ClassBetween>
PathMatrix Sites(std::uint32_t sites, int class_of_short, const ClassBetween& class_between) {
  PathMatrix paths(std::size_t{6} * sites);
  for (std::size_t peer = 0; peer < paths.size(); ++peer) paths.set_site(peer, static_cast<std::uint32_t>(peer / 6));
  ForEachPath(paths.size(), [&](std::size_t from, std::size_t to) {
    const bool inside = paths.site(from) == paths.site(to);
    const bool is_short = inside && to == from + 1;
    paths.set_delay(from, to, is_short ? 0.001 : 0.010);
    const int between = inside ? 0 : class_between(paths.site(from), paths.site(to));
    paths.set_rate(from, to, RateOfClass(is_short ? class_of_short : between));
  });
  return paths;
}

TEST(RingOrder, ManyPeersTakeSeveralSlowLinksRatherThanOneSlower) {
  // One way round the three sites: classes 0, 0 and 7; the other way round: 4, 4 and 4.
  const PathMatrix paths = Sites(3, 0, [](std::uint32_t from, std::uint32_t to) {
    if (to == (from + 1) % 3) return to == 0 ? 7 : 0;
    return 4;
  });
  EXPECT_EQ(ClassOfRate(FindRing(paths).rate), 4);
}

TEST(RingOrder, ManyPeersUseAnyLinkThatIsNoSlowerThanTheBottleneck) {
  const PathMatrix paths = Sites(4, 3, [](std::uint32_t, std::uint32_t) { return 3; });
  const Ring ring = FindRing(paths);
  EXPECT_EQ(ClassOfRate(ring.rate), 3);
  EXPECT_NEAR(ring.delay_seconds, 4 * (5 * 0.001 + 0.010), 1e-9);
}

// Peers scattered over a square of 0.1 s.
PathMatrix PlaneWorld(std::size_t peers) {
  std::mt19937_64 random(1);
  const auto scatter = [&](std::vector<double>& coordinates) {
    for (double& value : coordinates) value = static_cast<double>(random() % 1000) * 1e-4;
  };
  std::vector<double> x(peers);
  std::vector<double> y(peers);
  scatter(x);
  scatter(y);
  PathMatrix paths(peers);
  ForEachPath(peers,
              [&](auto from, auto to) { paths.set_delay(from, to, std::hypot(x[from] - x[to], y[from] - y[to])); });
  return paths;
}

void ExpectNoMoveImproves(const PathMatrix& paths) {
  const RingLinks links(paths);
  const Order found = SearchRing(links, links.worst_class());
  const auto at = [](Order& order, std::size_t place) { return order.begin() + static_cast<std::ptrdiff_t>(place); };
  for (std::size_t first = 1; first < found.size(); ++first) {
    for (std::size_t end = first + 1; end <= found.size(); ++end) {
      Order turned = found;
      std::reverse(at(turned, first), at(turned, end));
      ASSERT_GE(links.CostOf(turned), links.CostOf(found)) << first << " to " << end << " turned";
    }
    Order without = found;
    without.erase(at(without, first));
    for (std::size_t place = 1; place <= without.size(); ++place) {
      Order moved = without;
      moved.insert(at(moved, place), found[first]);
      ASSERT_GE(links.CostOf(moved), links.CostOf(found)) << first << " moved to " << place;
    }
  }
}

TEST(RingSearch, LeavesNothingThatOneMoveImproves) {
  ExpectNoMoveImproves(PlaneWorld(120));
  for (std::uint64_t seed = 1; seed <= 20; ++seed) ExpectNoMoveImproves(RandomWorld(30, seed));
}

TEST(RingSearch, NeverBeatsTheExactRingAndComesCloseToIt) {
  constexpr int kWorldsPerSize = 30;
  int worlds = 0;
  int same_class = 0;
  double ratio_sum = 0;
  for (std::size_t peers = 8; peers <= 12; ++peers) {
    for (std::uint64_t seed = 1; seed <= kWorldsPerSize; ++seed, ++worlds) {
      const RingLinks links(RandomWorld(peers, seed));
      RateClass wanted = 0;
      while (!HasRing(links, wanted)) ++wanted;
      const Order exact = CheapestRing(links, wanted);
      const Order searched = SearchRing(links, wanted);
      ASSERT_GE(links.ClassOf(searched), links.ClassOf(exact)) << peers << " peers, seed " << seed;
      if (links.ClassOf(searched) > links.ClassOf(exact)) continue;
      const auto ratio = static_cast<double>(links.CostOf(searched)) / static_cast<double>(links.CostOf(exact));
      ASSERT_GE(ratio, 1) << peers << " peers, seed " << seed;
      ++same_class;
      ratio_sum += ratio;
    }
  }
  EXPECT_GE(same_class, worlds * 9 / 10);
  EXPECT_LE(ratio_sum / same_class, 1.05);
}

// Five hosts, four of them at one site: one-way delays in milliseconds and link rates in Mbit/s, from row to column.
PathMatrix WhereTheSearchGoesWrong() {
  constexpr std::size_t kPeers = 5;
  constexpr double kDelays[kPeers][kPeers] = {
      {0, 98, 82, 127, 97}, {121, 0, 1, 1, 1}, {95, 1, 0, 1, 1}, {86, 1, 1, 0, 1}, {81, 1, 1, 1, 0}};
  constexpr double kRates[kPeers][kPeers] = {
      {0, 30, 550, 550, 70}, {10, 0, 30, 30, 20}, {430, 20, 0, 670, 80}, {630, 30, 630, 0, 80}, {40, 30, 40, 40, 0}};
  PathMatrix paths(kPeers);
  ForEachPath(kPeers, [&](std::size_t from, std::size_t to) {
    paths.set_delay(from, to, kDelays[from][to] * 1e-3);
    paths.set_rate(from, to, kRates[from][to] * 1e6 / 8);
  });
  for (std::size_t peer = 1; peer < kPeers; ++peer) paths.set_site(peer, 1);
  return paths;
}

TEST(RingSearch, CostsAPlanOverTwoPercentWhereTheExactRingIsBetter) {
  const PathMatrix paths = WhereTheSearchGoesWrong();
  const auto seconds = [&](const Order& ring) {
    const CostModel model(paths, {.ring = ring});
    return model.Seconds(model.Best(kMiB), kMiB);
  };
  const Order exact = FindRing(paths).order;
  const RingLinks links(paths);
  const RateClass best = links.BestClassPossible();  // the first that a search tries, and the last if it reaches it
  const Order searched = SearchRing(links, best);
  ASSERT_EQ(links.ClassOf(searched), best);
  EXPECT_GT(seconds(searched), 1.02 * seconds(exact));
}

// Around {0, 1, 2}: the given rate and delay; the other way round: 100 MB/s and 10 ms.
PathMatrix TwoWays(double rate, double delay_seconds) {
  PathMatrix paths = UniformWorld(3, 0.010, 100e6);
  ForEachLinkOf({0, 1, 2}, [&](auto from, auto to) {
    paths.set_rate(from, to, rate);
    paths.set_delay(from, to, delay_seconds);
  });
  return paths;
}

const Order kOneWay = {0, 1, 2};
const Order kOtherWay = {0, 2, 1};

TEST(WorthSwitching, ForOverTenPercentOfTheBottleneckWhateverTheDelay) {
  EXPECT_TRUE(WorthSwitching(TwoWays(90e6, 0.001), kOneWay, kOtherWay));
  EXPECT_FALSE(WorthSwitching(TwoWays(92e6, 0.010), kOneWay, kOtherWay));
}

TEST(WorthSwitching, ForOverTenPercentOfTheDelayWhereTheBottleneckStays) {
  EXPECT_TRUE(WorthSwitching(TwoWays(92e6, 0.009), kOtherWay, kOneWay));
  EXPECT_FALSE(WorthSwitching(TwoWays(92e6, 0.0095), kOtherWay, kOneWay));
  EXPECT_FALSE(WorthSwitching(TwoWays(90e6, 0.001), kOtherWay, kOneWay)) << "costs over 10% of the bottleneck";
}

TEST(WorthSwitching, NotForNoiseOfALocalNetwork) {
  PathMatrix paths = UniformWorld(3, 0.000030, 100e6);
  ForEachLinkOf(kOneWay, [&](auto from, auto to) { paths.set_delay(from, to, 0.000010); });
  EXPECT_FALSE(WorthSwitching(paths, kOtherWay, kOneWay)) << "0.06 ms less";
}

TEST(WorthSwitching, NeverInBothDirections) {
  int switches = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    const PathMatrix paths = RandomWorld(6, seed);
    const Order best = FindRing(paths).order;
    const bool there = WorthSwitching(paths, Identity(6), best);
    const bool back = WorthSwitching(paths, best, Identity(6));
    EXPECT_FALSE(there && back) << "seed " << seed;
    EXPECT_FALSE(WorthSwitching(paths, best, best)) << "seed " << seed;
    switches += there ? 1 : 0;
  }
  EXPECT_GT(switches, 100);
}

}  // namespace
}  // namespace ringway
