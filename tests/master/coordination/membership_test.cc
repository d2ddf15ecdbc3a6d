#include "master/coordination/membership.h"

#include <gtest/gtest.h>

#include "master/coordination/clique.h"

namespace ringway {
namespace {

std::set<PeerId> Peers(std::initializer_list<std::uint64_t> ids) {
  std::set<PeerId> out;
  for (const std::uint64_t id : ids) out.emplace(id);
  return out;
}

TEST(WhoGoes, NobodyWithoutAccusations) { EXPECT_TRUE(WhoGoes({Peers({1, 2, 3}), {}, {}, {}}).empty()); }

TEST(WhoGoes, AccusedOfOneGoesWhenItIsSilent) {
  EXPECT_EQ(WhoGoes({Peers({1, 2, 3}), {}, {}, {{PeerId(1), Peers({3})}}}), Peers({1}));
}

TEST(WhoGoes, MutualAccusationCostsTheHigherId) {
  EXPECT_EQ(WhoGoes({Peers({1, 2, 3}), {}, {}, {{PeerId(1), Peers({2})}, {PeerId(2), Peers({1})}}}), Peers({2}));
}

TEST(WhoGoes, WhoIsCutOffFromAllGoesAloneAlthoughItAccusesEverybody) {
  const Accusations accusations = {
      {PeerId(1), Peers({2, 3, 4})}, {PeerId(2), Peers({1})}, {PeerId(3), Peers({1})}, {PeerId(4), Peers({1})}};
  EXPECT_EQ(WhoGoes({Peers({1, 2, 3, 4}), {}, {}, accusations}), Peers({1}));
}

TEST(WhoGoes, WordsOfThoseWhoAreGoneDoNotCount) {
  EXPECT_EQ(WhoGoes({Peers({1, 2, 3}), Peers({3}), {}, {{PeerId(1), Peers({3})}}}), Peers({3}));
  EXPECT_EQ(WhoGoes({Peers({1, 2}), {}, {}, {{PeerId(1), Peers({9})}, {PeerId(9), Peers({1})}}}), Peers({}));
}

TEST(WhoGoes, TwoDeadPeersAreBothDropped) {
  EXPECT_EQ(WhoGoes({Peers({1, 2, 3, 4}), {}, {}, {{PeerId(2), Peers({1, 3})}, {PeerId(4), Peers({3})}}}),
            Peers({2, 4}));
}

TEST(WhoGoes, WhoHearsNobodyGoesAloneAlthoughNobodyAccusesIt) {
  const std::set<PeerId> all = Peers({1, 2, 3, 4});
  for (const std::uint64_t deaf : {1, 2, 4}) {
    Accusations accusations;
    for (const PeerId other : all) {
      if (other != PeerId(deaf)) accusations[other] = Peers({deaf});
    }
    EXPECT_EQ(WhoGoes({all, {}, all, accusations}), Peers({deaf}));
  }
}

TEST(WhoGoes, FirstToMissTwoDeadPeersStays) {
  const Accusations accusations = {{PeerId(3), Peers({1})}, {PeerId(4), Peers({1})}};
  EXPECT_EQ(WhoGoes({Peers({1, 2, 3, 4}), {}, Peers({1, 2}), accusations}), Peers({3, 4}));
}

// Seven circles of five in which each accuses the next but one (clique_test.cc): the first search takes nearly all
// branches of a decision, and it is not the only one.
TEST(WhoGoes, DaemonsThatAccuseToMakeItHardTakeNoMoreThanOneSearch) {
  constexpr std::uint64_t kMembers = 35;
  Dispute dispute;
  for (std::uint64_t i = 0; i < kMembers; ++i) {
    const std::uint64_t circle = i / 5 * 5;
    dispute.members.emplace(1 + i);
    dispute.accusations[PeerId(1 + circle + (i + 2) % 5)].emplace(1 + i);
  }
  dispute.spoken = dispute.members;
  std::uint64_t steps_left = kCliqueStepsMax;
  const std::set<PeerId> gone = WhoGoes(dispute, steps_left);
  EXPECT_EQ(steps_left, 0U);
  EXPECT_EQ(gone.size(), kMembers - 14) << "two stay of each circle";
  for (const auto& [accused, accusers] : dispute.accusations) {
    for (const PeerId accuser : accusers) EXPECT_TRUE(gone.contains(accused) || gone.contains(accuser));
  }
  EXPECT_EQ(WhoGoes(dispute, steps_left), WhoGoes(dispute, steps_left)) << "without any, too";
}

TEST(WhoGoes, OneWayAccusationBetweenTheLivingCostsTheAccused) {
  const std::set<PeerId> all = Peers({1, 2, 3});
  EXPECT_EQ(WhoGoes({all, {}, all, {{PeerId(1), Peers({3})}}}), Peers({1}));
}

}  // namespace
}  // namespace ringway
