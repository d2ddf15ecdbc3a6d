#include "proto/ids.h"

#include <gtest/gtest.h>

#include <concepts>
#include <type_traits>

namespace ringway {
namespace {

// Numbers of one kind must not compile where another is asked for.
static_assert(!std::is_convertible_v<Rank, std::uint32_t> && !std::is_convertible_v<std::uint32_t, Rank>);
static_assert(!std::is_convertible_v<PeerId, DaemonId> && !std::is_constructible_v<PeerId, DaemonId>);
static_assert(!std::equality_comparable_with<PeerId, DaemonId> && !std::equality_comparable_with<Rank, LaneId>);
static_assert(std::is_trivially_copyable_v<Epoch> && std::is_trivially_copyable_v<OpName>);
static_assert(sizeof(Rank) == 4 && sizeof(PeerId) == 8 && sizeof(Epoch) == 8);

TEST(IdsTest, StartAtZero) {
  EXPECT_EQ(PeerId().value, 0u);
  EXPECT_EQ(Epoch().value, 0u);
  EXPECT_EQ(OpName().channel, ChannelId(0));
  EXPECT_EQ(OpName().seq, 0u);
}

TEST(IdsTest, EpochKeepsTermAndCounterApart) {
  const Epoch epoch = Epoch::Of(3, 0xFFFFFFFFu);
  EXPECT_EQ(epoch.term(), 3u);
  EXPECT_EQ(epoch.counter(), 0xFFFFFFFFu);
  EXPECT_EQ(epoch.value, 0x3FFFFFFFFu);
  EXPECT_EQ(Epoch::Of(0xFFFFFFFFu, 0).term(), 0xFFFFFFFFu);
}

TEST(IdsTest, LaterTermsComeAfterAnyCounter) {
  EXPECT_LT(Epoch::Of(1, 0xFFFFFFFFu), Epoch::Of(2, 0));
  EXPECT_LT(Epoch::Of(2, 4), Epoch::Of(2, 5));
  EXPECT_LT(Epoch(), Epoch::Of(0, 1));
}

TEST(IdsTest, OperationsAreOrderedByChannelThenSequence) {
  EXPECT_LT((OpName{ChannelId(0), 9}), (OpName{ChannelId(1), 0}));
  EXPECT_LT((OpName{ChannelId(1), 0}), (OpName{ChannelId(1), 1}));
  EXPECT_EQ((OpName{ChannelId(1), 1}), (OpName{ChannelId(1), 1}));
}

TEST(IdsTest, AsText) {
  EXPECT_EQ(ToString(Epoch::Of(1, 42)), "1.42");
  EXPECT_EQ(ToString(PeerId(17)), "17");
  EXPECT_EQ(ToString(OpName{ChannelId(3), 1000}), "3:1000");
}

}  // namespace
}  // namespace ringway
