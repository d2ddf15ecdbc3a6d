#include "daemon/buffers/feedback.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

#include "daemon/kernels/reduce.h"
#include "tests/daemon/buffers/buffers_of.h"

namespace ringway::buffers {
namespace {

constexpr std::uint64_t kCount = 100;
constexpr std::uint64_t kTensorBytes = kCount * sizeof(float);
const Descriptor kSum{OpKind::kAllReduce, DType::kF32, ReduceOp::kSum, Codec::kInt8, Algorithm::kRing, kCount};

class FeedbackBuffersTest : public ::testing::Test {
 protected:
  FeedbackBuffersTest() {
    std::vector<float> values(kCount);
    for (std::size_t i = 0; i < kCount; ++i) values[i] = static_cast<float>(i);
    std::memcpy(input_.data(), values.data(), kTensorBytes);
  }
  // An operation of name 1 whose rounding took a quarter of element 5.
  void CommitLoss() {
    auto first = book_.Begin(1, kSum, BuffersOf(input_, output_, kTensorBytes), share_);
    ASSERT_TRUE(first.ok());
    while (first.value()->can_stage()) (void)first.value()->Stage(1000);
    first.value()->loss()->floats()[5] = 0.25F;
    book_.End(1, *first.value(), /*committed=*/true);
  }
  std::vector<std::byte> input_ = std::vector<std::byte>(kTensorBytes);
  std::vector<std::byte> output_ = std::vector<std::byte>(kTensorBytes);
  std::shared_ptr<MemoryBudget> budget_ = std::make_shared<MemoryBudget>(8 * kTensorBytes);
  std::shared_ptr<MemoryShare> share_ = std::make_shared<MemoryShare>(budget_);
  ResidualBook book_;
};

TEST_F(FeedbackBuffersTest, LossOfACommittedOperationIsAddedToTheNextInSlicesOfWholeElements) {
  ASSERT_NO_FATAL_FAILURE(CommitLoss());

  const auto trainers = BuffersOf(input_, output_, kTensorBytes, std::uint64_t{0});
  auto second = book_.Begin(1, kSum, trainers, share_);
  ASSERT_TRUE(second.ok());
  EXPECT_FALSE(second.value()->can_stage());
  EXPECT_TRUE(second.value()->Grow(30));
  EXPECT_EQ(second.value()->Stage(10), 8U);
  EXPECT_EQ(second.value()->Stage(1000), 20U);
  EXPECT_EQ(second.value()->input_ready(), 28U);
  EXPECT_FALSE(second.value()->can_stage()) << "half an element";
  EXPECT_TRUE(second.value()->Grow(kTensorBytes));
  while (second.value()->can_stage()) EXPECT_GT(second.value()->Stage(1), 0U);
  std::vector<float> sum(kCount);
  std::memcpy(sum.data(), second.value()->input(), kTensorBytes);
  for (std::size_t i = 0; i < kCount; ++i) EXPECT_EQ(sum[i], static_cast<float>(i) + (i == 5 ? 0.25F : 0.0F));
  EXPECT_FALSE(second.value()->trainer_writes_input());
  EXPECT_EQ(second.value()->output(), output_.data());
}

TEST_F(FeedbackBuffersTest, MemoryIsChargedAndReturned) {
  auto first = book_.Begin(1, kSum, BuffersOf(input_, output_, kTensorBytes), share_);
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(share_->used(MemoryUse::kResiduals), 3 * kTensorBytes);
  auto second = book_.Begin(2, kSum, BuffersOf(input_, output_, kTensorBytes), share_);
  ASSERT_FALSE(second.ok()) << "half of the budget is four tensors";
  EXPECT_EQ(second.status().code(), Code::kResourceExhausted);
  EXPECT_EQ(share_->used(MemoryUse::kResiduals), 3 * kTensorBytes) << "nothing of it stays";
  EXPECT_EQ(book_.size(), 1U);
  book_.End(1, *first.value(), /*committed=*/true);
  first = Status(Code::kInternal, "gone");
  EXPECT_EQ(share_->used(MemoryUse::kResiduals), kTensorBytes);
}

TEST_F(FeedbackBuffersTest, RestartedItStagesTheSameAgainAndOfAnotherTensorItKnowsNothing) {
  auto first = book_.Begin(1, kSum, BuffersOf(input_, output_, kTensorBytes), share_);
  ASSERT_TRUE(first.ok());
  while (first.value()->can_stage()) (void)first.value()->Stage(1000);
  first.value()->loss()->floats()[5] = 0.25F;  // of an attempt that is given up
  first.value()->Restart();
  EXPECT_EQ(first.value()->input_ready(), 0U);
  while (first.value()->can_stage()) (void)first.value()->Stage(1000);
  EXPECT_EQ(first.value()->loss()->floats()[5], 0.0F);
  first.value()->loss()->floats()[7] = 3.0F;
  book_.End(1, *first.value(), /*committed=*/true);
  EXPECT_FALSE(first.value()->can_stage());

  Descriptor shorter = kSum;
  shorter.count = 50;
  auto other = book_.Begin(1, shorter, BuffersOf(input_, output_, kTensorBytes), share_);
  ASSERT_TRUE(other.ok());
  while (other.value()->can_stage()) (void)other.value()->Stage(1000);
  std::vector<float> sum(50);
  std::memcpy(sum.data(), other.value()->input(), 200);
  EXPECT_EQ(sum[7], 7.0F);
  EXPECT_EQ(book_.size(), 1U);
}

TEST_F(FeedbackBuffersTest, AnotherTensorThatThereIsNoRoomForLeavesTheResidualAsItWas) {
  ASSERT_NO_FATAL_FAILURE(CommitLoss());

  Descriptor longer = kSum;
  longer.count = kCount + 40;  // three of these are more than four tensors
  auto refused = book_.Begin(1, longer, BuffersOf(input_, output_, kTensorBytes), share_);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), Code::kResourceExhausted);
  EXPECT_EQ(share_->used(MemoryUse::kResiduals), kTensorBytes);

  auto next = book_.Begin(1, kSum, BuffersOf(input_, output_, kTensorBytes), share_);
  ASSERT_TRUE(next.ok());
  while (next.value()->can_stage()) (void)next.value()->Stage(1000);
  float sum = 0;
  std::memcpy(&sum, next.value()->input() + 5 * sizeof(float), sizeof(sum));
  EXPECT_EQ(sum, 5.25F);
}

TEST_F(FeedbackBuffersTest, InputThatIsKeptIsAddedToTheNextWhateverAnAttemptHasNoted) {
  const auto trainers = BuffersOf(input_, output_, kTensorBytes, std::uint64_t{40});
  for (int missed = 0; missed < 2; ++missed) {  // they add up
    auto late = book_.Begin(1, kSum, missed == 0 ? trainers : BuffersOf(input_, output_, kTensorBytes), share_);
    ASSERT_TRUE(late.ok());
    while (late.value()->can_stage()) (void)late.value()->Stage(1000);
    late.value()->loss()->floats()[5] = 0.25F;  // of an attempt that had this input
    while (late.value()->can_keep()) (void)late.value()->Keep(12);
    EXPECT_EQ(late.value()->is_kept(), missed == 1) << "only ten elements are ready";
    EXPECT_EQ(late.value()->Grow(kTensorBytes), missed == 0);
    while (late.value()->can_keep()) (void)late.value()->Keep(20'000);
    EXPECT_TRUE(late.value()->is_kept());
    book_.End(1, *late.value(), /*committed=*/false);
  }
  auto next = book_.Begin(1, kSum, BuffersOf(input_, output_, kTensorBytes), share_);
  ASSERT_TRUE(next.ok());
  while (next.value()->can_stage()) (void)next.value()->Stage(1000);
  std::vector<float> sum(kCount);
  std::memcpy(sum.data(), next.value()->input(), kTensorBytes);
  for (std::size_t i = 0; i < kCount; ++i) EXPECT_EQ(sum[i], static_cast<float>(3 * i));
}

TEST_F(FeedbackBuffersTest, InputThatIsNotKeptWholeIsNotInTheNext) {
  auto late = book_.Begin(1, kSum, BuffersOf(input_, output_, kTensorBytes, std::uint64_t{40}), share_);
  ASSERT_TRUE(late.ok());
  while (late.value()->can_keep()) (void)late.value()->Keep(1000);
  book_.End(1, *late.value(), /*committed=*/false);
  late = Status(Code::kInternal, "gone");
  auto next = book_.Begin(1, kSum, BuffersOf(input_, output_, kTensorBytes), share_);
  while (next.value()->can_stage()) (void)next.value()->Stage(1000);
  EXPECT_EQ(std::memcmp(next.value()->input(), input_.data(), kTensorBytes), 0);
}

// Together they are larger than f16 holds.
TEST_F(FeedbackBuffersTest, InputsThatAreKeptAddUpInF32) {
  const Descriptor half{OpKind::kAllReduce, DType::kF16, ReduceOp::kSum, Codec::kNone, Algorithm::kRing, 1};
  // 40000 twice, infinity, -40000
  for (const std::uint16_t bits : std::vector<std::uint16_t>{0x78e2, 0x78e2, 0x7c00, 0xf8e2}) {
    std::memcpy(input_.data(), &bits, sizeof(bits));
    auto late = book_.Begin(1, half, BuffersOf(input_, output_, sizeof(bits)), share_);
    ASSERT_TRUE(late.ok());
    while (late.value()->can_keep()) (void)late.value()->Keep(1);
    book_.End(1, *late.value(), /*committed=*/false);
  }
  const std::uint16_t nothing = 0, forty_thousand = 0x78e2;
  std::memcpy(input_.data(), &nothing, sizeof(nothing));
  auto next = book_.Begin(1, half, BuffersOf(input_, output_, sizeof(nothing)), share_);
  ASSERT_TRUE(next.ok());
  while (next.value()->can_stage()) (void)next.value()->Stage(1);
  EXPECT_EQ(std::memcmp(next.value()->input(), &forty_thousand, sizeof(forty_thousand)), 0);
}

// What f16 cannot hold of them stays for the next one, as often as it takes; an input that is infinite stays so.
TEST_F(FeedbackBuffersTest, InputsThatAreMoreThanTheDtypeHoldsAreInSeveralSums) {
  const Descriptor half{OpKind::kAllReduce, DType::kF16, ReduceOp::kAvg, Codec::kNone, Algorithm::kRing, 1};
  constexpr unsigned kFortyThousand = 0x78e2, kLargest = 0x7bff;  // 65504
  const auto keep = [&](unsigned value) {
    const auto bits = static_cast<std::uint16_t>(value);
    std::memcpy(input_.data(), &bits, sizeof(bits));
    auto late = book_.Begin(1, half, BuffersOf(input_, output_, sizeof(bits)), share_);
    ASSERT_TRUE(late.ok());
    while (late.value()->can_keep()) (void)late.value()->Keep(1);
    book_.End(1, *late.value(), /*committed=*/false);
  };
  const auto contribute = [&](unsigned value) {
    const auto bits = static_cast<std::uint16_t>(value);
    std::memcpy(input_.data(), &bits, sizeof(bits));
    auto next = book_.Begin(1, half, BuffersOf(input_, output_, sizeof(bits)), share_);
    EXPECT_TRUE(next.ok());
    while (next.value()->can_stage()) (void)next.value()->Stage(1);
    std::uint16_t sum = 0;
    std::memcpy(&sum, next.value()->input(), sizeof(sum));
    book_.End(1, *next.value(), /*committed=*/true);
    return unsigned{sum};
  };
  for (const unsigned sign : {0x0000U, 0x8000U}) {
    for (int late = 0; late < 4; ++late) keep(kFortyThousand | sign);
    EXPECT_EQ(contribute(sign), kLargest | sign);
    EXPECT_EQ(contribute(0x7c00 | sign), 0x7c00 | sign) << "and what was kept is gone with it";
    for (int late = 0; late < 4; ++late) keep(kFortyThousand | sign);
    EXPECT_EQ(contribute(sign), kLargest | sign);
    EXPECT_EQ(contribute(sign), kLargest | sign);
    EXPECT_EQ(contribute(sign), 0x7714 | sign) << "160000 - 2 * 65504 = 28992";
    EXPECT_EQ(contribute(0), 0U);
  }
}

TEST(ResidualTest, TakesWhatRoundingTookOrCameLateAndNothingThatIsNotFinite) {
  const float inf = std::numeric_limits<float>::infinity();
  for (const kernels::Isa isa : {kernels::Isa::kScalar, kernels::Isa::kAvx2, kernels::Isa::kAvx512}) {
    if (!kernels::IsAvailable(isa)) continue;
    const std::vector<float> value = {1.5F, inf, NAN, 3e38F, -2.0F}, decoded = {1.0F, inf, 1.0F, -3e38F, -2.25F};
    std::vector<float> loss = {1, 1, 1, 1, 1};
    kernels::NoteResidualOn(isa, DType::kF32, loss.data(), value.data(), decoded.data(), value.size(), 4);
    EXPECT_EQ(loss, (std::vector<float>{3, 0, 0, 0, 2})) << kernels::NameOf(isa);

    const std::vector<std::uint16_t> x = {0x3f80, 0x7f80, 0x3f80};  // 1, infinity and 1, as bf16
    const std::vector<float> residual = {0x1p-9F, 1.0F, 0x1.8p-8F};
    std::vector<std::uint16_t> sum(3);
    std::vector<float> rounding(3, 9.0F);
    kernels::AddResidualOn(isa, DType::kBF16, sum.data(), rounding.data(), x.data(), residual.data(), 3);
    EXPECT_EQ(sum, (std::vector<std::uint16_t>{0x3f80, 0x7f80, 0x3f81})) << kernels::NameOf(isa);
    EXPECT_EQ(rounding, (std::vector<float>{0x1p-9F, 0.0F, -0x1p-9F})) << kernels::NameOf(isa);

    const std::vector<float> late = {1.5F, -inf, NAN, 3e38F, -2.0F}, kept = {1, 2, 3, 3e38F, 5};
    kernels::KeepInputOn(isa, DType::kF32, loss.data(), late.data(), kept.data(), late.size());
    EXPECT_EQ(loss, (std::vector<float>{2.5F, 2, 3, 3e38F, 3})) << kernels::NameOf(isa);
  }
}

}  // namespace
}  // namespace ringway::buffers
