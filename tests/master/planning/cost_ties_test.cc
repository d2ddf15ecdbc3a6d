// Schedules that cost nearly the same: the choice is no luck.
#include <gtest/gtest.h>

#include <vector>

#include "master/planning/cost_model.h"
#include "tests/master/planning/path_worlds.h"

namespace ringway {
namespace {

CostModel ModelOf(std::size_t peers) { return CostModel(UniformWorld(peers, 0.050, 50e6), {.ring = Identity(peers)}); }

std::vector<TableEntry> TableWith(const CostModel& model, const std::vector<TableEntry>& in_use) {
  return model.BuildTable(OpKind::kAllReduce, in_use);
}

TEST(CostTies, GoToTheScheduleThatDrivesTheFewestPaths) {
  const CostModel model = ModelOf(4);
  const auto dearer = [&](std::uint64_t bytes) {  // the ring than direct
    return model.Seconds(Algorithm::kRing, bytes) / model.Seconds(Algorithm::kDirect, bytes);
  };
  EXPECT_GT(dearer(11'000'000), 1);
  EXPECT_EQ(model.Cheapest(11'000'000), Algorithm::kRing);
  EXPECT_EQ(model.Cheapest(11'000'000, Algorithm::kDirect), Algorithm::kRing) << "one that is in use comes after it";
  EXPECT_GT(dearer(8'000'000), 1.05);
  EXPECT_EQ(model.Cheapest(8'000'000, Algorithm::kRing), Algorithm::kDirect) << "no tie";
  const std::vector<TableEntry> table = TableWith(model, {{.algorithm = Algorithm::kDirect}});
  EXPECT_EQ(table.back().algorithm, Algorithm::kRing);
  EXPECT_LT(table[table.size() - 2].bytes_upto, 11'000'000U);
}

TEST(CostTies, EndWhereTheScheduleWithFewerPathsIsThreePercentDearer) {
  const CostModel model = ModelOf(4);
  const auto price = [&](Algorithm algorithm, std::uint64_t bytes) {
    return model.Seconds(algorithm, bytes) + kQueuedPart * 1.5 * static_cast<double>(bytes) / 50e6;
  };
  std::uint64_t bytes = 8'000'000;
  while (model.Cheapest(bytes) != Algorithm::kRing && bytes < 64 * kMiB) bytes += 20'000;
  EXPECT_NEAR(price(Algorithm::kRing, bytes) / price(Algorithm::kDirect, bytes), 1.03, 0.003);
  const std::vector<TableEntry> table = TableWith(model, {});
  ASSERT_GE(table.size(), 2u);
  EXPECT_EQ(table[table.size() - 2].algorithm, Algorithm::kDirect);
  EXPECT_NEAR(static_cast<double>(table[table.size() - 2].bytes_upto), static_cast<double>(bytes), 1.2e6);
}

// Two peers have one path each way, whatever the schedule.
TEST(CostTies, OfAsManyPathsGoToTheOneInUse) {
  const CostModel model = ModelOf(2);
  constexpr std::uint64_t kLarge = 64 * kMiB;
  EXPECT_EQ(model.Cheapest(kLarge), Algorithm::kRing);
  EXPECT_EQ(model.Cheapest(kLarge, Algorithm::kDirect), Algorithm::kDirect);
  EXPECT_EQ(model.Cheapest(kLarge, Algorithm::kOneShot), Algorithm::kRing) << "it costs more";
  const auto table = TableWith(model, {{.bytes_upto = kLarge, .algorithm = Algorithm::kDirect}});
  ASSERT_GE(table.size(), 2u);
  EXPECT_EQ(table[table.size() - 2].algorithm, Algorithm::kDirect);
  EXPECT_GE(table[table.size() - 2].bytes_upto, kLarge);
  EXPECT_EQ(table.back().algorithm, Algorithm::kRing) << "beyond the end of the table in use";
}

}  // namespace
}  // namespace ringway
