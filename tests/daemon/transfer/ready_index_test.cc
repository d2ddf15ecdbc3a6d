#include "daemon/transfer/ready_index.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

namespace ringway::transfer {
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

// Returns the next turn, however the index chose it.
std::optional<Turn> Next(const ReadyIndex& index, std::uint32_t bytes_max = kAny) {
  const auto choice = index.Next(kTo, bytes_max);
  return choice ? std::optional(choice->turn) : std::nullopt;
}

// The next one, which is sent.
std::optional<Turn> Send(ReadyIndex& index, std::uint32_t bytes_max = kAny) {
  const auto choice = index.Next(kTo, bytes_max);
  if (!choice) return std::nullopt;
  index.Sent(*choice, kTo, bytes_max);
  return choice->turn;
}

TEST(ReadyIndexTest, OperationsTakeTurnsAndGoWhenNothingIsLeft) {
  ReadyIndex index;
  for (const std::uint64_t seq : {1, 2, 3}) index.Changed(Op(seq), kTo, 10);
  for (const std::uint64_t seq : {1, 2, 3, 1}) EXPECT_EQ(Send(index), Op(seq));
  index.Changed(Op(2), kTo, std::nullopt);
  EXPECT_EQ(Send(index), Op(3));
  EXPECT_EQ(Send(index), Op(1));
  EXPECT_EQ(index.Next(Rank(4), kAny), std::nullopt);
  EXPECT_EQ(RanksOf(index), std::vector<std::uint32_t>{3});
  index.Changed(Op(1), kTo, std::nullopt);
  index.Changed(Op(3), kTo, std::nullopt);
  EXPECT_TRUE(RanksOf(index).empty());
}

TEST(ReadyIndexTest, HigherPriorityGoesFirstAndEqualOnesTakeTurns) {
  ReadyIndex index;
  for (const Turn& turn : {Op(1), Op(2, 7), Op(3, 255), Op(4, 7), Op(5)}) index.Changed(turn, kTo, 10);
  EXPECT_EQ(Next(index), Op(3, 255));
  index.Changed(Op(3, 255), kTo, kLarge);
  EXPECT_EQ(Next(index, 10), Op(2, 7)) << "what does not fit makes way";
  index.NotNow(Op(3, 255), kTo);
  for (const std::uint64_t seq : {2, 4, 2}) EXPECT_EQ(Send(index), Op(seq, 7));
  index.Changed(Op(2, 7), kTo, std::nullopt);
  index.Changed(Op(4, 7), kTo, std::nullopt);
  for (const std::uint64_t seq : {1, 5, 1}) EXPECT_EQ(Send(index), Op(seq));
  index.Unblock(Op(3, 255));
  EXPECT_EQ(Next(index), Op(3, 255));
}

TEST(ReadyIndexTest, LowerPrioritiesGetOneSegmentOfAPeriodInTurn) {
  ReadyIndex index;
  for (const Turn& turn : {Op(1, 9), Op(2, 9), Op(3, 4), Op(4), Op(5)}) index.Changed(turn, kTo, 10);
  std::vector<Turn> aged;
  constexpr std::uint32_t kPeriods = 6;
  for (std::uint32_t i = 1; i <= kPeriods * ReadyIndex::kAgingPeriod; ++i) {
    const auto choice = index.Next(kTo, kAny);
    ASSERT_TRUE(choice);
    EXPECT_EQ(choice->is_aged, i % ReadyIndex::kAgingPeriod == 0) << i;
    EXPECT_EQ(choice->is_aged, choice->turn.priority < 9) << i;
    if (choice->is_aged) aged.push_back(choice->turn);
    index.Sent(*choice, kTo, kAny);
  }
  EXPECT_EQ(aged, (std::vector<Turn>{Op(3, 4), Op(4), Op(5), Op(3, 4), Op(4), Op(5)}));
}

// Each operation is sent whole, and there is always a newer one of its channel.
TEST(ReadyIndexTest, StreamOfNewOperationsStarvesNoOlderOne) {
  for (const std::uint32_t priority : {0, 200}) {
    ReadyIndex index;
    const Turn waiting{0, {ChannelId(9), 1}};
    for (const std::uint64_t seq : {1, 2}) index.Changed(Op(seq, priority), kTo, 10);
    index.Changed(waiting, kTo, 10);
    std::uint64_t before = 0;
    for (std::uint64_t seq = 3; before < 100 && Next(index) != waiting; ++seq, ++before) {
      const Turn sent = *Send(index);
      index.Changed(sent, kTo, std::nullopt);
      index.Changed(Op(seq, priority), kTo, 10);
    }
    EXPECT_LT(before, ReadyIndex::kAgingPeriod) << "priority " << priority;
  }
}

// Those that lanes for small segments send do not count against large ones.
TEST(ReadyIndexTest, LowLargeOneHasItsShareBesideSmallOnesOfEveryPriority) {
  ReadyIndex index;
  for (const Turn& turn : {Op(1, 9), Op(2)}) index.Changed(turn, kTo, 10);
  for (const Turn& turn : {Op(3, 9), Op(4)}) index.Changed(turn, kTo, kLarge);
  bool is_sent = false;
  for (std::uint32_t i = 0; i < 4 * ReadyIndex::kAgingPeriod && !is_sent; ++i) {
    EXPECT_TRUE(Send(index, kSmallLanePayloadBytes));
    is_sent = Send(index) == Op(4);
  }
  EXPECT_TRUE(is_sent);
}

TEST(ReadyIndexTest, AgedOneThatMayNotBeSentMakesWay) {
  ReadyIndex index;
  for (const Turn& turn : {Op(1, 9), Op(2), Op(3)}) index.Changed(turn, kTo, 10);
  for (std::uint32_t i = 1; i < ReadyIndex::kAgingPeriod; ++i) EXPECT_EQ(Send(index), Op(1, 9));
  EXPECT_EQ(Next(index), Op(2));
  index.NotNow(Op(2), kTo);
  EXPECT_EQ(Next(index), Op(3));
  index.NotNow(Op(3), kTo);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Send(index), Op(1, 9));
  index.Unblock(kTo);
  EXPECT_EQ(Send(index), Op(2)) << "its turn has come long ago";
}

TEST(ReadyIndexTest, LaneForSmallSegmentsGetsThoseOnly) {
  ReadyIndex index;
  index.Changed(Op(1), kTo, kLarge);
  index.Changed(Op(2), kTo, 100);
  EXPECT_EQ(Send(index, kSmallLanePayloadBytes), Op(2));
  EXPECT_EQ(Next(index), Op(1));
  index.Changed(Op(2), kTo, kLarge);  // the next one is larger
  EXPECT_EQ(Next(index, kSmallLanePayloadBytes), std::nullopt);
  index.Changed(Op(1), kTo, 5);
  EXPECT_EQ(Next(index, kSmallLanePayloadBytes), Op(1));
}

TEST(ReadyIndexTest, BlockedOneIsNotAskedAgainUntilItsRankOrItselfIsUnblocked) {
  ReadyIndex index;
  index.Changed(Op(1), kTo, 10);
  index.Changed(Op(2), kTo, 10);
  index.NotNow(Op(1), kTo);
  EXPECT_EQ(Next(index), Op(2));
  index.NotNow(Op(2), kTo);
  EXPECT_EQ(Next(index), std::nullopt);
  EXPECT_TRUE(RanksOf(index).empty());
  index.Changed(Op(1), kTo, kLarge);  // does not unblock it
  EXPECT_EQ(Next(index), std::nullopt);
  index.Unblock(Op(2));
  EXPECT_EQ(Next(index), Op(2));
  index.Unblock(Rank(4));
  EXPECT_EQ(Next(index), Op(2));
  index.Unblock(kTo);
  EXPECT_EQ(Next(index), Op(1)) << "it keeps its turn";
  EXPECT_EQ(Next(index, kSmallLanePayloadBytes), Op(2)) << "the first one is large by now";
}

TEST(ReadyIndexTest, BlockedOneThatEndsIsForgotten) {
  ReadyIndex index;
  index.Changed(Op(1), kTo, 10);
  index.NotNow(Op(1), kTo);
  index.Changed(Op(1), kTo, std::nullopt);
  index.UnblockAll();
  EXPECT_EQ(Next(index), std::nullopt);
}

}  // namespace
}  // namespace ringway::transfer
