#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <vector>

#include "daemon/buffers/staged_buffers.h"
#include "daemon/buffers/trainer_buffers.h"
#include "proto/memory_budget.h"
#include "tests/daemon/buffers/buffers_of.h"

namespace ringway::buffers {
namespace {

constexpr std::uint64_t kBytes = 1000;
constexpr std::uint64_t kSlice = 300;

class OpBuffersTest : public ::testing::Test {
 protected:
  OpBuffersTest() {
    for (std::size_t i = 0; i < kBytes; ++i) input_[i] = static_cast<std::byte>(i % 251);
  }
  std::shared_ptr<StagedBuffers> Stage(const std::shared_ptr<OpBuffers>& trainers, std::uint64_t input_bytes) {
    return StagedBuffers::Make(trainers, {.output_bytes = kBytes, .input_bytes = input_bytes}, share_);
  }

  std::vector<std::byte> input_ = std::vector<std::byte>(kBytes);
  std::vector<std::byte> output_ = std::vector<std::byte>(kBytes);
  std::shared_ptr<MemoryBudget> budget_ = std::make_shared<MemoryBudget>(8 * kBytes);
  std::shared_ptr<MemoryShare> share_ = std::make_shared<MemoryShare>(budget_);
};

TEST_F(OpBuffersTest, TrainersOwnAreUsedInPlaceAndDeliveredAtOnce) {
  const auto trainers = BuffersOf(input_, output_, kBytes);
  EXPECT_EQ(trainers->input(), input_.data());
  EXPECT_EQ(trainers->output(), output_.data());
  EXPECT_TRUE(trainers->trainer_writes_input());
  EXPECT_TRUE(trainers->trainer_writes_output());
  EXPECT_FALSE(trainers->can_stage());
  EXPECT_EQ(trainers->final_upto(), 0U);
  EXPECT_EQ(trainers->Deliver(kBytes, 0), 0U);
  EXPECT_EQ(trainers->final_upto(), kBytes);
}

TEST_F(OpBuffersTest, InputOnlyGrowsAndNotBeyondItsEnd) {
  const auto trainers = BuffersOf(input_, output_, kBytes, 400);
  EXPECT_FALSE(trainers->Grow(400));
  EXPECT_FALSE(trainers->Grow(399));
  EXPECT_EQ(trainers->input_ready(), 400U);
  EXPECT_TRUE(trainers->Grow(~std::uint64_t{0}));
  EXPECT_EQ(trainers->input_ready(), kBytes);
  EXPECT_FALSE(trainers->Grow(kBytes + 1));
}

TEST_F(OpBuffersTest, StagedInputFollowsTheTrainersInSlicesAndKeepsWhatItWas) {
  const auto trainers = BuffersOf(input_, output_, kBytes, 400);
  const auto staged = Stage(trainers, kBytes);
  EXPECT_FALSE(staged->trainer_writes_input());
  EXPECT_EQ(staged->input_ready(), 0U);
  EXPECT_EQ(staged->Stage(kSlice), kSlice);
  EXPECT_TRUE(staged->can_stage());
  EXPECT_EQ(staged->Stage(kSlice), 100U);
  EXPECT_FALSE(staged->can_stage());
  EXPECT_EQ(staged->Stage(kSlice), 0U);
  EXPECT_EQ(staged->input_ready(), 400U);

  EXPECT_TRUE(staged->Grow(kBytes));
  EXPECT_EQ(staged->input_ready(), 400U) << "the trainer has filled it, and it is not copied yet";
  while (staged->can_stage()) ASSERT_GT(staged->Stage(kSlice), 0U);
  const std::vector<std::byte> before = input_;
  input_.assign(kBytes, std::byte{0xEE});
  EXPECT_EQ(std::vector<std::byte>(staged->input(), staged->input() + kBytes), before);
}

TEST_F(OpBuffersTest, WithoutStagedInputTheTrainersIsUsedInPlace) {
  const auto staged = Stage(BuffersOf(input_, output_, kBytes, 400), 0);
  EXPECT_EQ(staged->input(), input_.data());
  EXPECT_EQ(staged->input_ready(), 400U);
  EXPECT_TRUE(staged->trainer_writes_input());
  EXPECT_FALSE(staged->can_stage());
  EXPECT_TRUE(staged->Grow(500));
  EXPECT_EQ(staged->input_ready(), 500U);
}

TEST_F(OpBuffersTest, ResultReachesTheTrainerByDeliverAloneAndIsFinalOnceItIsWhole) {
  const auto trainers = BuffersOf(input_, output_, kBytes);
  const auto staged = Stage(trainers, 0);
  ASSERT_NE(staged->output(), output_.data());
  const std::vector<std::byte> untouched = output_;
  std::iota(reinterpret_cast<std::uint8_t*>(staged->output()), reinterpret_cast<std::uint8_t*>(staged->output()) + 700,
            1);
  EXPECT_EQ(output_, untouched);
  EXPECT_EQ(staged->Deliver(700, kSlice), kSlice);
  EXPECT_EQ(staged->Deliver(700, kSlice), kSlice);
  EXPECT_EQ(staged->final_upto(), 0U);
  EXPECT_EQ(staged->Deliver(700, kSlice), 100U);
  EXPECT_EQ(staged->final_upto(), 700U);
  EXPECT_TRUE(std::equal(output_.begin(), output_.begin() + 700, staged->output()));
  EXPECT_TRUE(std::equal(output_.begin() + 700, output_.end(), untouched.begin() + 700)) << "beyond the result";
}

TEST_F(OpBuffersTest, ResultOfNothingIsFinalAtOnce) {
  const auto staged = Stage(BuffersOf(input_, output_, kBytes), 0);
  EXPECT_EQ(staged->Deliver(0, kSlice), 0U);
  EXPECT_EQ(staged->final_upto(), 0U);
}

TEST_F(OpBuffersTest, StagedOnesAreChargedUntilTheLastHolderIsGone) {
  auto staged = Stage(BuffersOf(input_, output_, kBytes), kBytes);
  EXPECT_EQ(share_->used(MemoryUse::kResults), 2 * kBytes);
  std::shared_ptr<const void> frame = staged;
  staged.reset();
  EXPECT_EQ(share_->used(MemoryUse::kResults), 2 * kBytes);
  frame.reset();
  EXPECT_EQ(share_->used(MemoryUse::kResults), 0U);
}

TEST_F(OpBuffersTest, WithoutRoomThereAreNone) {
  ASSERT_TRUE(share_->TryTake(MemoryUse::kResults, 3 * kBytes));
  EXPECT_EQ(Stage(BuffersOf(input_, output_, kBytes), kBytes), nullptr);
  EXPECT_EQ(share_->used(MemoryUse::kResults), 3 * kBytes);
  EXPECT_NE(Stage(BuffersOf(input_, output_, kBytes), 0), nullptr);
}

}  // namespace
}  // namespace ringway::buffers
