#include "daemon/agreement/ready_index.h"

#include <gtest/gtest.h>

#include <vector>

namespace ringway::agreement {
namespace {

constexpr Rank kTo(3);
constexpr std::uint32_t kAny = ~std::uint32_t{0};
constexpr std::uint32_t kLarge = kSmallLanePayloadBytes + 1;

Turn Op(std::uint64_t seq, std::uint32_t priority = 0) { return {priority, {ChannelId(0), seq}}; }

std::vector<std::uint32_t> RanksOf(const ReadyIndex& index) {
  std::vector<std::uint32_t> ranks;
  index.ForEachRank([&](Rank rank) { ranks.push_back(rank.value); });
  return ranks;
}

TEST(ReadyIndexTest, OperationsTakeTurnsAndGoWhenNothingIsLeft) {
  ReadyIndex index;
  for (const std::uint64_t seq : {1, 2, 3}) index.Changed(Op(seq), kTo, 10);
  EXPECT_EQ(index.Next(kTo, Op(1).name, kAny), Op(2));
  EXPECT_EQ(index.Next(kTo, Op(3).name, kAny), Op(1));
  index.Changed(Op(2), kTo, std::nullopt);
  EXPECT_EQ(index.Next(kTo, Op(1).name, kAny), Op(3));
  EXPECT_EQ(index.Next(Rank(4), Op(1).name, kAny), std::nullopt);
  EXPECT_EQ(RanksOf(index), std::vector<std::uint32_t>{3});
  index.Changed(Op(1), kTo, std::nullopt);
  index.Changed(Op(3), kTo, std::nullopt);
  EXPECT_TRUE(RanksOf(index).empty());
}

TEST(ReadyIndexTest, HigherPriorityGoesFirstAndEqualOnesTakeTurns) {
  ReadyIndex index;
  for (const Turn& turn : {Op(1), Op(2, 7), Op(3, 255), Op(4, 7), Op(5)}) index.Changed(turn, kTo, 10);
  EXPECT_EQ(index.Next(kTo, Op(3).name, kAny), Op(3, 255));
  index.Changed(Op(3, 255), kTo, kLarge);
  EXPECT_EQ(index.Next(kTo, Op(1).name, 10), Op(2, 7)) << "what does not fit makes way";
  index.NotNow(Op(3, 255), kTo);
  EXPECT_EQ(index.Next(kTo, Op(1).name, kAny), Op(2, 7));
  EXPECT_EQ(index.Next(kTo, Op(2).name, kAny), Op(4, 7));
  EXPECT_EQ(index.Next(kTo, Op(5).name, kAny), Op(2, 7));
  index.Changed(Op(2, 7), kTo, std::nullopt);
  index.Changed(Op(4, 7), kTo, std::nullopt);
  EXPECT_EQ(index.Next(kTo, Op(1).name, kAny), Op(5));
  EXPECT_EQ(index.Next(kTo, Op(5).name, kAny), Op(1));
  index.Unblock(Op(3, 255));
  EXPECT_EQ(index.Next(kTo, Op(1).name, kAny), Op(3, 255));
}

TEST(ReadyIndexTest, LaneForSmallSegmentsGetsThoseOnly) {
  ReadyIndex index;
  index.Changed(Op(1), kTo, kLarge);
  index.Changed(Op(2), kTo, 100);
  EXPECT_EQ(index.Next(kTo, Op(2).name, kSmallLanePayloadBytes), Op(2));
  EXPECT_EQ(index.Next(kTo, Op(2).name, kAny), Op(1));
  index.Changed(Op(2), kTo, kLarge);  // the next one is larger
  EXPECT_EQ(index.Next(kTo, Op(2).name, kSmallLanePayloadBytes), std::nullopt);
  index.Changed(Op(1), kTo, 5);
  EXPECT_EQ(index.Next(kTo, Op(2).name, kSmallLanePayloadBytes), Op(1));
}

TEST(ReadyIndexTest, BlockedOneIsNotAskedAgainUntilItsRankOrItselfIsUnblocked) {
  ReadyIndex index;
  index.Changed(Op(1), kTo, 10);
  index.Changed(Op(2), kTo, 10);
  index.NotNow(Op(1), kTo);
  EXPECT_EQ(index.Next(kTo, Op(2).name, kAny), Op(2));
  index.NotNow(Op(2), kTo);
  EXPECT_EQ(index.Next(kTo, Op(2).name, kAny), std::nullopt);
  EXPECT_TRUE(RanksOf(index).empty());
  index.Changed(Op(1), kTo, kLarge);  // does not unblock it
  EXPECT_EQ(index.Next(kTo, Op(2).name, kAny), std::nullopt);
  index.Unblock(Op(2));
  EXPECT_EQ(index.Next(kTo, Op(2).name, kAny), Op(2));
  index.Unblock(Rank(4));
  EXPECT_EQ(index.Next(kTo, Op(2).name, kAny), Op(2));
  index.Unblock(kTo);
  EXPECT_EQ(index.Next(kTo, Op(2).name, kAny), Op(1));
  EXPECT_EQ(index.Next(kTo, Op(1).name, kSmallLanePayloadBytes), Op(2)) << "it is large by now";
}

TEST(ReadyIndexTest, BlockedOneThatEndsIsForgotten) {
  ReadyIndex index;
  index.Changed(Op(1), kTo, 10);
  index.NotNow(Op(1), kTo);
  index.Changed(Op(1), kTo, std::nullopt);
  index.UnblockAll();
  EXPECT_EQ(index.Next(kTo, Op(2).name, kAny), std::nullopt);
}

}  // namespace
}  // namespace ringway::agreement
