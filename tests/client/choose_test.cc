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

}  // namespace
}  // namespace ringway::internal
