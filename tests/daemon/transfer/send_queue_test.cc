#include "daemon/transfer/send_queue.h"

#include <gtest/gtest.h>

#include <list>
#include <optional>

#include "daemon/transfer/early_frames.h"

namespace ringway::transfer {
namespace {

class SendQueueTest : public testing::Test {
 protected:
  static constexpr PeerId kMe{1};
  static constexpr PeerId kOther{2};
  static constexpr Rank kOtherRank{1};
  static constexpr std::uint32_t kBytes = 1000;
  static constexpr std::uint32_t kAny = ~std::uint32_t{0};

  // Two segments fit the window.
  SendQueueTest() { queue_.OnView({kMe, kOther}, 2 * (kBytes + EarlyRoom::kOverheadBytes)); }

  Attempt& Submit(std::uint32_t priority = 0) {
    Attempt& attempt = attempts_.emplace_back();
    attempt.name = {.op = {ChannelId(), attempts_.size()}, .priority = priority};
    queue_.index().Changed(attempt.turn(), kOtherRank, kBytes);
    return attempt;
  }

  std::optional<Turn> Next() const {
    const auto choice = queue_.Next(kOtherRank, kAny);
    return choice ? std::optional(choice->turn) : std::nullopt;
  }

  PeerCounts counts_;
  SendQueue queue_{counts_};
  std::list<Attempt> attempts_;
};

TEST_F(SendQueueTest, WindowIsOneForAllOperationsThatAPeerMayNotHaveSubmitted) {
  Attempt& first = Submit();
  Attempt& second = Submit();
  const std::uint64_t cost = queue_.Charge(first, kOther, kBytes);
  EXPECT_EQ(cost, kBytes + EarlyRoom::kOverheadBytes);
  EXPECT_TRUE(queue_.MayBeSent(second, kOther, kBytes));
  EXPECT_EQ(queue_.Charge(second, kOther, kBytes), cost);
  EXPECT_FALSE(queue_.MayBeSent(first, kOther, kBytes));
  queue_.Refund(first, kOther, cost);
  EXPECT_TRUE(queue_.MayBeSent(second, kOther, kBytes)) << "what was lost takes no room";
}

TEST_F(SendQueueTest, LostSegmentLetsWhatWasBlockedBeAskedAgain) {
  Attempt& attempt = Submit();
  const std::uint64_t cost = queue_.Charge(attempt, kOther, kBytes);
  queue_.NotNow(attempt.turn(), kOtherRank);
  queue_.Refund(attempt, kOther, 0);
  EXPECT_FALSE(Next()) << "it was not charged";
  queue_.Refund(attempt, kOther, cost);
  EXPECT_EQ(Next(), attempt.turn());
}

TEST_F(SendQueueTest, ReadyOperationTakesNoRoomAndIsAskedAgain) {
  Attempt& attempt = Submit();
  for (int i = 0; i < 2; ++i) (void)queue_.Charge(attempt, kOther, kBytes);
  EXPECT_FALSE(queue_.MayBeSent(attempt, kOther, kBytes));
  queue_.NotNow(attempt.turn(), kOtherRank);
  EXPECT_FALSE(Next());
  queue_.MarkReady(attempt, kOther);
  EXPECT_EQ(Next(), attempt.turn());
  EXPECT_TRUE(queue_.MayBeSent(attempt, kOther, kBytes));
  EXPECT_EQ(queue_.Charge(attempt, kOther, kBytes), 0u);
  EXPECT_TRUE(queue_.MayBeSent(Submit(), kOther, kBytes)) << "its bytes left the window";
}

TEST_F(SendQueueTest, StoppedOperationLeavesTheWindow) {
  Attempt& attempt = Submit();
  for (int i = 0; i < 2; ++i) (void)queue_.Charge(attempt, kOther, kBytes);
  queue_.NotNow(attempt.turn(), kOtherRank);
  queue_.Release(attempt);
  EXPECT_TRUE(attempt.eager_bytes.empty());
  EXPECT_TRUE(queue_.MayBeSent(Submit(), kOther, kBytes));
  EXPECT_EQ(Next(), attempt.turn()) << "what was blocked is asked again";
}

TEST_F(SendQueueTest, WhatGoesAtOnceGoesBeyondTheWindow) {
  Attempt& large = Submit();
  Attempt& small = Submit();
  for (int i = 0; i < 2; ++i) (void)queue_.Charge(large, kOther, kBytes);
  EXPECT_FALSE(queue_.MayBeSent(small, kOther, kBytes)) << "the large one comes before it";
  queue_.NotNow(small.turn(), kOtherRank);
  small.goes_at_once = true;
  queue_.Unblock(small);
  EXPECT_TRUE(queue_.MayBeSent(small, kOther, kBytes));
  queue_.index().Changed(large.turn(), kOtherRank, std::nullopt);
  EXPECT_EQ(Next(), small.turn()) << "it is asked again";
}

TEST_F(SendQueueTest, OperationsTakeTurnsAndThoseBeforeTheirTurnAreCounted) {
  const Turn first = Submit().turn();
  const Turn second = Submit(/*priority=*/1).turn();
  std::uint64_t of_first = 0;
  for (std::uint32_t i = 0; i < 2 * ReadyIndex::kAgingPeriod; ++i) {
    const auto choice = queue_.Next(kOtherRank, kAny);
    ASSERT_TRUE(choice);
    EXPECT_TRUE(choice->turn == first || choice->turn == second);
    of_first += choice->turn == first;
    queue_.Sent(*choice, kOtherRank, kAny);
  }
  EXPECT_EQ(of_first, 2U);
  EXPECT_EQ(counts_.segments_aged, 2U);
}

}  // namespace
}  // namespace ringway::transfer
