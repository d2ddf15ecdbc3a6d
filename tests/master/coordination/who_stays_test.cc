// Compares who stays (proto/PROTOCOL.md, "Who stays") in every small world with the table's rules, applied to every set
// of members that could stay.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <tuple>
#include <vector>

#include "master/coordination/membership.h"

namespace ringway {
namespace {

using Mask = std::uint32_t;

Mask BitOf(std::size_t member) { return Mask{1} << member; }
bool Has(Mask set, std::size_t member) { return (set >> member & 1) != 0; }
int SizeOf(Mask set) { return std::popcount(set); }

// Members are numbered from 0; the peer id of member i is i + 1.
struct Small {
  std::size_t world = 0;
  Mask spoken = 0;
  std::vector<Mask> accusers;    // by accused
  std::vector<Mask> suspecters;  // by suspected
  Mask all() const { return BitOf(world) - 1; }
};

Small Peaceful(std::size_t world) {
  return {.world = world,
          .spoken = BitOf(world) - 1,
          .accusers = std::vector<Mask>(world),
          .suspecters = std::vector<Mask>(world)};
}

std::set<PeerId> PeersIn(Mask set) {
  std::set<PeerId> out;
  for (std::size_t i = 0; set >> i != 0; ++i) {
    if (Has(set, i)) out.emplace(i + 1);
  }
  return out;
}

Dispute DisputeOf(const Small& small) {
  Dispute dispute{.members = PeersIn(small.all()), .certain = {}, .spoken = PeersIn(small.spoken), .accusations = {}};
  for (std::size_t i = 0; i < small.world; ++i) {
    if (small.accusers[i] != 0) dispute.accusations[PeerId(i + 1)] = PeersIn(small.accusers[i]);
    if (small.suspecters[i] != 0) dispute.suspicions[PeerId(i + 1)] = PeersIn(small.suspecters[i]);
  }
  return dispute;
}

Mask Staying(const Small& small) {
  const std::set<PeerId> gone = WhoGoes(DisputeOf(small));
  Mask stay = small.all();
  for (const PeerId peer : gone) stay &= ~BitOf(peer.value - 1);
  return stay;
}

// Returns whether no member of the set accuses another one.
bool AtPeace(const Small& small, Mask set) {
  for (std::size_t i = 0; i < small.world; ++i) {
    if (Has(set, i) && (small.accusers[i] & set) != 0) return false;
  }
  return true;
}

// The rules, by trying every set.
Mask ByTheTable(const Small& small) {
  Mask remaining = small.all();
  for (;;) {  // the silent that are accused
    std::tuple<int, std::size_t> worst{0, 0};
    for (std::size_t i = 0; i < small.world; ++i) {
      if (Has(remaining, i) && !Has(small.spoken, i))
        worst = std::max(worst, {SizeOf(small.accusers[i] & remaining), i});
    }
    if (std::get<0>(worst) == 0) break;
    remaining &= ~BitOf(std::get<1>(worst));
  }
  std::vector<std::tuple<int, int, std::size_t>> distrust;
  for (std::size_t i = 0; i < small.world; ++i) {
    if (!Has(remaining, i)) continue;
    const Mask doubters = (small.accusers[i] | small.suspecters[i]) & remaining;
    Mask at_odds = doubters;
    for (std::size_t j = 0; j < small.world; ++j) {
      if (Has(remaining, j) && Has(small.accusers[j] | small.suspecters[j], i)) at_odds |= BitOf(j);
    }
    distrust.emplace_back(SizeOf(at_odds), SizeOf(doubters), i);
  }
  std::sort(distrust.rbegin(), distrust.rend());
  const auto is_better = [&](Mask a, Mask b) {
    if (SizeOf(a) != SizeOf(b)) return SizeOf(a) > SizeOf(b);
    for (const auto& [at_odds, doubters, member] : distrust) {
      if (Has(a, member) != Has(b, member)) return Has(b, member);
    }
    return false;
  };
  Mask best = 0;
  for (Mask set = 0; set <= small.all(); ++set) {
    if ((set & ~remaining) == 0 && AtPeace(small, set) && is_better(set, best)) best = set;
  }
  return best;
}

// Calls it with every matrix of n * (n - 1) words.
template <typename Call>
void ForEachMatrix(std::size_t world, Call&& call) {
  const std::size_t words = world * (world - 1);
  for (std::uint64_t code = 0; code < std::uint64_t{1} << words; ++code) {
    std::vector<Mask> by(world);
    std::uint64_t bits = code;
    for (std::size_t about = 0; about < world; ++about) {
      for (std::size_t one = 0; one < world; ++one) {
        if (one == about) continue;
        if ((bits & 1) != 0) by[about] |= BitOf(one);
        bits >>= 1;
      }
    }
    call(std::move(by));
  }
}

::testing::AssertionResult FollowsTheTable(const Small& small) {
  const Mask expected = ByTheTable(small);
  const Mask stay = Staying(small);
  if (stay == expected) return ::testing::AssertionSuccess();
  auto failure = ::testing::AssertionFailure();
  failure << "stay " << stay << ", by the table " << expected << "; world " << small.world << ", spoken "
          << small.spoken;
  for (std::size_t i = 0; i < small.world; ++i) {
    failure << "; " << i << " accused by " << small.accusers[i] << " suspected by " << small.suspecters[i];
  }
  return failure;
}

TEST(WhoStays, FollowsTheTableForAllAccusationsInWorldsOfTwoToFour) {
  for (const std::size_t world : {2, 3, 4}) {
    Small small = Peaceful(world);
    ForEachMatrix(world, [&](std::vector<Mask> accusers) {
      small.accusers = std::move(accusers);
      for (small.spoken = 0; small.spoken <= small.all(); ++small.spoken) ASSERT_TRUE(FollowsTheTable(small));
    });
  }
}

TEST(WhoStays, FollowsTheTableForAllAccusationsAndSuspicionsInAWorldOfThree) {
  Small small = Peaceful(3);
  ForEachMatrix(3, [&](std::vector<Mask> accusers) {
    small.accusers = std::move(accusers);
    ForEachMatrix(3, [&](std::vector<Mask> suspecters) {
      small.suspecters = std::move(suspecters);
      for (small.spoken = 0; small.spoken <= small.all(); ++small.spoken) ASSERT_TRUE(FollowsTheTable(small));
    });
  });
}

// A pair in discord is one way, the other way or both ways at odds.
TEST(WhoStays, FollowsTheTableForAllPairsInDiscordInAWorldOfFive) {
  constexpr std::size_t kWorld = 5;
  constexpr std::uint32_t kPairs = kWorld * (kWorld - 1) / 2;
  for (std::uint32_t pairs = 0; pairs < 1U << kPairs; ++pairs) {
    for (int ways = 1; ways <= 3; ++ways) {
      Small small = Peaceful(kWorld);
      std::uint32_t bits = pairs;
      for (std::size_t a = 0; a < kWorld; ++a) {
        for (std::size_t b = a + 1; b < kWorld; ++b, bits >>= 1) {
          if ((bits & 1) == 0) continue;
          if ((ways & 1) != 0) small.accusers[a] |= BitOf(b);
          if ((ways & 2) != 0) small.accusers[b] |= BitOf(a);
        }
      }
      for (small.spoken = 0; small.spoken <= small.all(); ++small.spoken) ASSERT_TRUE(FollowsTheTable(small));
    }
  }
}

// ---------------------------------------------------------------------------------------------- rows of the table

TEST(WhoStays, TwoOfThreeThatAreLostAtOnceGoAndTheThirdStays) {
  for (std::size_t third = 0; third < 3; ++third) {
    Small small = Peaceful(3);
    small.spoken = BitOf(third);
    for (std::size_t lost = 0; lost < 3; ++lost) {
      if (lost != third) small.accusers[lost] = BitOf(third);
    }
    EXPECT_EQ(Staying(small), BitOf(third));
  }
}

// Whichever side accuses which: one way, the other or both, pair by pair.
TEST(WhoStays, LargerSideStaysWhoeverAccusesAcross) {
  for (const std::size_t world : {3, 5}) {
    for (Mask side = 1; side < BitOf(world) - 1; ++side) {
      std::vector<std::pair<std::size_t, std::size_t>> across;
      for (std::size_t a = 0; a < world; ++a) {
        for (std::size_t b = 0; b < world; ++b) {
          if (Has(side, a) && !Has(side, b)) across.emplace_back(a, b);
        }
      }
      const Mask all = BitOf(world) - 1;
      const Mask larger = 2 * SizeOf(side) > static_cast<int>(world) ? side : all & ~side;
      int ways_max = 1;
      for (std::size_t i = 0; i < across.size(); ++i) ways_max *= 3;
      for (int ways = 0; ways < ways_max; ++ways) {
        Small small = Peaceful(world);
        int left = ways;
        for (const auto& [a, b] : across) {
          if (left % 3 != 0) small.accusers[a] |= BitOf(b);
          if (left % 3 != 1) small.accusers[b] |= BitOf(a);
          left /= 3;
        }
        ASSERT_EQ(Staying(small), larger) << "side " << side << " ways " << ways;
      }
    }
  }
}

TEST(WhoStays, WhoeverNobodyIsAtOddsWithStays) {
  ForEachMatrix(4, [](std::vector<Mask> accusers) {
    Small small = Peaceful(4);
    small.accusers = std::move(accusers);
    Mask disputants = 0;
    for (std::size_t i = 0; i < 4; ++i) disputants |= small.accusers[i] | (small.accusers[i] != 0 ? BitOf(i) : 0);
    ASSERT_EQ(small.all() & ~disputants & ~Staying(small), 0U);
  });
}

// Its first accusation, of only one of them, is enough where the link to the other is known to be down.
TEST(WhoStays, SuspicionsTellWhichOfTwoIsAtFault) {
  for (std::size_t alone = 0; alone < 3; ++alone) {
    for (std::size_t first = 0; first < 3; ++first) {
      if (first == alone) continue;
      const std::size_t second = 3 - alone - first;
      for (const bool tells : {false, true}) {  // which of the two suspects the other
        Small small = Peaceful(3);
        small.accusers[first] = BitOf(alone);
        small.suspecters[tells ? second : alone] = BitOf(tells ? alone : second);
        EXPECT_EQ(Staying(small), small.all() & ~BitOf(alone));
        EXPECT_TRUE(IsSettled(DisputeOf(small)));
      }
    }
  }
}

// A dispute that is settled stays so, whatever else the members say about the one that is at odds with all others.
TEST(WhoStays, SettledDisputeIsNotChangedByFurtherWordsOfTheSameFault) {
  ForEachMatrix(4, [](std::vector<Mask> accusers) {
    Small small = Peaceful(4);
    small.accusers = std::move(accusers);
    if (!IsSettled(DisputeOf(small))) return;
    const Mask stay = Staying(small);
    for (std::size_t gone = 0; gone < 4; ++gone) {
      if (Has(stay, gone)) continue;
      Small more = small;
      more.accusers[gone] = small.all() & ~BitOf(gone);
      for (std::size_t other = 0; other < 4; ++other) {
        if (other != gone) more.accusers[other] |= BitOf(gone);
      }
      ASSERT_EQ(Staying(more), stay);
    }
  });
}

TEST(WhoStays, OneAccusationAmongThreeThatAreHeardIsNotSettled) {
  Small small = Peaceful(3);
  EXPECT_TRUE(IsSettled(DisputeOf(small)));
  small.accusers[0] = BitOf(1);
  EXPECT_FALSE(IsSettled(DisputeOf(small)));
  small.accusers[1] = BitOf(0);
  EXPECT_FALSE(IsSettled(DisputeOf(small))) << "the third may have lost one of them, too";
}

TEST(WhoStays, OfTwoBothHaveToSpeakForASettledDispute) {
  Small small = Peaceful(2);
  small.accusers[0] = BitOf(1);
  EXPECT_FALSE(IsSettled(DisputeOf(small)));
  small.accusers[1] = BitOf(0);
  EXPECT_TRUE(IsSettled(DisputeOf(small)));
}

}  // namespace
}  // namespace ringway
