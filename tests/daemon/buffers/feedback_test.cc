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
  static float* Floats(std::byte* at) { return reinterpret_cast<float*>(at); }

  std::vector<std::byte> input_ = std::vector<std::byte>(kTensorBytes);
  std::vector<std::byte> output_ = std::vector<std::byte>(kTensorBytes);
  std::shared_ptr<MemoryBudget> budget_ = std::make_shared<MemoryBudget>(8 * kTensorBytes);
  std::shared_ptr<MemoryShare> share_ = std::make_shared<MemoryShare>(budget_);
  ResidualBook book_;
};

TEST_F(FeedbackBuffersTest, LossOfACommittedOperationIsAddedToTheNextInSlicesOfWholeElements) {
  auto first = book_.Begin(1, kSum, BuffersOf(input_, output_, kTensorBytes), share_);
  ASSERT_TRUE(first.ok());
  Floats(first.value()->loss()->data())[5] = 0.25F;
  book_.End(1, *first.value(), /*committed=*/true);
  first = Status(Code::kInternal, "gone");

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

TEST(ResidualTest, IsTheScaledDifferenceAndNothingThatIsNotFinite) {
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> a = {1.5F, inf, NAN, 3e38F, -2.0F}, b = {1.0F, inf, 1.0F, -3e38F, -2.25F};
  for (const kernels::Isa isa : {kernels::Isa::kScalar, kernels::Isa::kAvx2, kernels::Isa::kAvx512}) {
    if (!kernels::IsAvailable(isa)) continue;
    std::vector<float> lost(a.size());
    kernels::ResidualOn(isa, DType::kF32, lost.data(), a.data(), b.data(), a.size(), 4);
    EXPECT_EQ(lost, (std::vector<float>{2.0F, 0.0F, 0.0F, 0.0F, 1.0F})) << kernels::NameOf(isa);
  }
}

}  // namespace
}  // namespace ringway::buffers
