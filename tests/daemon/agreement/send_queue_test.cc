#include "daemon/agreement/send_queue.h"

#include <gtest/gtest.h>

#include "daemon/agreement/early_frames.h"
#include "daemon/buffers/trainer_buffers.h"

namespace ringway::agreement {
namespace {

class SendQueueTest : public testing::Test {
 protected:
  static constexpr PeerId kMe{1};
  static constexpr PeerId kOther{2};
  static constexpr Rank kOtherRank{1};
  static constexpr std::uint32_t kBytes = 1000;
  static constexpr std::uint32_t kAny = ~std::uint32_t{0};

  // Two segments fit the window.
  SendQueueTest() : ctx_(kMe, "g", {}), queue_(ctx_, table_) {
    View view;
    view.epoch = Epoch(1);
    view.members = {kMe, kOther};
    view.ranks = {{kMe, Rank(0)}, {kOther, kOtherRank}};
    view.plan.small_bytes_max = 100;
    view.plan.eager_bytes_max = 2 * (kBytes + EarlyFrames::kOverheadBytes);
    (void)ctx_.views.Install(std::move(view));
  }

  Operation& Submit(std::uint64_t bytes, std::uint32_t priority = 0) {
    Submission submission;
    submission.spec.priority = priority;
    submission.token = ++tokens_;
    submission.descriptor.count = bytes;
    submission.buffers = std::make_shared<buffers::TrainerBuffers>();
    Operation& op = table_.Add(std::move(submission));
    op.shape = collective::ShapeOf(op.submission.descriptor, 2, Rank());
    queue_.mutable_index()->Changed(TurnOf(op), kOtherRank, kBytes);
    return op;
  }

  std::optional<Turn> Next() const {
    const auto choice = queue_.Next(kOtherRank, kAny);
    return choice ? std::optional(choice->turn) : std::nullopt;
  }

  Context ctx_;
  OpTable table_;
  SendQueue queue_;
  std::uint64_t tokens_ = 0;
};

TEST_F(SendQueueTest, WindowIsOneForAllOperationsThatAPeerMayNotHaveSubmitted) {
  Operation& first = Submit(kBytes);
  Operation& second = Submit(kBytes);
  const std::uint64_t cost = queue_.Charge(first, kOther, kBytes);
  EXPECT_EQ(cost, kBytes + EarlyFrames::kOverheadBytes);
  EXPECT_TRUE(queue_.MayBeSent(second, kOther, kBytes));
  EXPECT_EQ(queue_.Charge(second, kOther, kBytes), cost);
  EXPECT_FALSE(queue_.MayBeSent(first, kOther, kBytes));
  queue_.Refund(first, kOther, cost);
  EXPECT_TRUE(queue_.MayBeSent(second, kOther, kBytes)) << "what was lost takes no room";
}

TEST_F(SendQueueTest, ReadyOperationTakesNoRoomAndIsAskedAgain) {
  Operation& op = Submit(kBytes);
  for (int i = 0; i < 2; ++i) (void)queue_.Charge(op, kOther, kBytes);
  EXPECT_FALSE(queue_.MayBeSent(op, kOther, kBytes));
  queue_.NotNow(TurnOf(op), kOtherRank);
  EXPECT_FALSE(Next());
  queue_.MarkReady(op, kOther);
  EXPECT_EQ(Next(), TurnOf(op));
  EXPECT_TRUE(queue_.MayBeSent(op, kOther, kBytes));
  EXPECT_EQ(queue_.Charge(op, kOther, kBytes), 0u);
  EXPECT_TRUE(queue_.MayBeSent(Submit(kBytes), kOther, kBytes)) << "its bytes left the window";
}

TEST_F(SendQueueTest, StoppedOperationLeavesTheWindow) {
  Operation& op = Submit(kBytes);
  for (int i = 0; i < 2; ++i) (void)queue_.Charge(op, kOther, kBytes);
  queue_.Release(op);
  EXPECT_TRUE(op.unready_bytes.empty());
  EXPECT_TRUE(queue_.MayBeSent(Submit(kBytes), kOther, kBytes));
}

TEST_F(SendQueueTest, NextSmallOperationOfItsChannelGoesBeyondTheWindow) {
  Operation& large = Submit(kBytes);
  Operation& small = Submit(100);
  for (int i = 0; i < 2; ++i) (void)queue_.Charge(large, kOther, kBytes);
  EXPECT_FALSE(queue_.MayBeSent(small, kOther, kBytes)) << "the large one comes before it";
  queue_.NotNow(TurnOf(small), kOtherRank);
  table_.MarkComplete(large.name);
  queue_.OnComplete(large);
  EXPECT_TRUE(queue_.MayBeSent(small, kOther, kBytes));
  queue_.mutable_index()->Changed(TurnOf(large), kOtherRank, std::nullopt);
  EXPECT_EQ(Next(), TurnOf(small)) << "it is asked again";
}

TEST_F(SendQueueTest, OperationsTakeTurnsAndThoseBeforeTheirTurnAreCounted) {
  const Turn first = TurnOf(Submit(kBytes));
  const Turn second = TurnOf(Submit(kBytes, /*priority=*/1));
  std::uint64_t of_first = 0;
  for (std::uint32_t i = 0; i < 2 * ReadyIndex::kAgingPeriod; ++i) {
    const auto choice = queue_.Next(kOtherRank, kAny);
    ASSERT_TRUE(choice);
    EXPECT_TRUE(choice->turn == first || choice->turn == second);
    of_first += choice->turn == first;
    queue_.Sent(*choice, kOtherRank, kAny);
  }
  EXPECT_EQ(of_first, 2U);
  EXPECT_EQ(ctx_.counts.segments_aged, 2U);
}

}  // namespace
}  // namespace ringway::agreement
