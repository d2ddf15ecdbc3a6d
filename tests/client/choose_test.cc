// Whose state is taken, where ranks have been away. All else of the choice is in tests/e2e/shared_state_test.cc.
#include "client/src/state/choose.h"

#include <gtest/gtest.h>

#include <vector>

namespace ringway::internal {
namespace {

Offer Of(Standing standing, std::uint64_t revision, std::uint64_t layout = 1) {
  return {.layout = layout,
          .content = {.low = revision},
          .revision = revision,
          .standing = static_cast<std::uint64_t>(standing)};
}

std::uint64_t RevisionTaken(const std::vector<Offer>& offers, std::size_t rank = 0) {
  const auto source = ChooseSource(offers, rank);
  EXPECT_TRUE(source.ok()) << source.status().text();
  return source.ok() ? offers[source.value()].revision : 0;
}

TEST(ChooseSourceTest, OfTheHighestStandingThereIs) {
  using enum Standing;
  EXPECT_EQ(RevisionTaken({Of(kTrains, 930), Of(kRejoined, 950), Of(kNew, 99)}), 930U);
  EXPECT_EQ(RevisionTaken({Of(kNew, 99999), Of(kRejoined, 950), Of(kRejoined, 940)}), 950U);
  EXPECT_EQ(RevisionTaken({Of(kNew, 1), Of(kNew, 3), Of(kNew, 2)}), 3U);
}

TEST(ChooseSourceTest, OtherTensorsAreTheFaultOfWhoDoesNotTrain) {
  using enum Standing;
  const std::vector<Offer> offers = {Of(kTrains, 5), Of(kRejoined, 6, 2)};
  EXPECT_EQ(RevisionTaken(offers, 0), 5U);
  EXPECT_TRUE(GoesTogether(offers, 0));
  EXPECT_FALSE(GoesTogether(offers, 1));
  EXPECT_FALSE(GoesTogether({Of(kNew, 5), Of(kNew, 5, 2)}, 0));
  EXPECT_EQ(ReferenceRank({Of(kNew, 5), Of(kRejoined, 5, 2), Of(kRejoined, 5)}), 1U);
}

TEST(ChooseSourceTest, StateOfOtherTensorsIsNotTakenThoughItsRankSends) {
  using enum Standing;
  std::vector<Offer> offers = {Of(kNew, 6, 2), Of(kTrains, 5)};
  offers[0].strategy = static_cast<std::uint64_t>(StateStrategy::kSend);
  EXPECT_EQ(RevisionTaken(offers, 1), 5U);
}

// Three ranks, of which the last one lacks the state.
std::vector<Offer> OffersOfReplay() {
  constexpr auto kTrains = static_cast<std::uint64_t>(Standing::kTrains);
  const Offer trains{.layout = 1, .content = {1, 1}, .revision = 9, .strategy = Offer::kReplays, .standing = kTrains};
  const Offer lacks{.layout = 1, .content = {2, 2}, .revision = 0, .strategy = Offer::kReplays, .standing = 0};
  return {trains, trains, lacks};
}

TEST(ReplayFromTest, NewestPeersThatLackTheStateReplay) {
  EXPECT_EQ(ReplayFrom(OffersOfReplay(), 0, {1, 2, 5}), 5U);
  auto two = OffersOfReplay();
  two[1] = two[2];
  EXPECT_EQ(ReplayFrom(two, 0, {1, 2, 5}), 2U);
}

TEST(ReplayFromTest, StateIsExchangedAtOnceUnlessAllCanReplayAndMembersAreOlder) {
  auto without_room = OffersOfReplay();
  without_room[1].strategy = 0;
  EXPECT_EQ(ReplayFrom(without_room, 0, {1, 2, 5}), 0U);
  EXPECT_EQ(ReplayFrom(OffersOfReplay(), 0, {1, 7, 5}), 0U) << "a member is newer";
  EXPECT_EQ(ReplayFrom(OffersOfReplay(), 0, {1, 2}), 0U);
  auto all_begin = OffersOfReplay();
  for (Offer& offer : all_begin) offer.standing = 0;
  EXPECT_EQ(ReplayFrom(all_begin, 0, {1, 2, 5}), 0U);
  auto same = OffersOfReplay();
  same[2] = same[0];
  EXPECT_EQ(ReplayFrom(same, 0, {1, 2, 5}), 0U);
}

}  // namespace
}  // namespace ringway::internal
