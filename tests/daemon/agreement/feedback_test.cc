// Error feedback through retries, failures and fetches: an operation that is tried again uses the same residual, and
// one that is committed advances it once.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "tests/daemon/agreement/duo.h"

namespace ringway::agreement {
namespace {

constexpr std::uint64_t kName = 7;
constexpr std::uint64_t kCount = 50'000;
const Descriptor kSum{OpKind::kAllReduce, DType::kF32, ReduceOp::kSum, Codec::kInt4, Algorithm::kRing, kCount};

// The fate of the first of two operations.
enum class First { kNothing, kIsAborted, kIsFetched, kFails };

class FeedbackRun : public DuoTest {
 public:
  FeedbackRun() {
    for (std::size_t index = 0; index < 2; ++index) {
      std::vector<float> values(kCount);
      for (std::size_t i = 0; i < kCount; ++i) values[i] = std::sin(static_cast<float>(i * (index + 1)));
      std::memcpy(nodes_[index].input.data(), values.data(), kCount * sizeof(float));
    }
  }
  void TestBody() override {}

  std::vector<float> Result(std::size_t index) const {
    std::vector<float> result(kCount);
    std::memcpy(result.data(), nodes_[index].result.data(), kCount * sizeof(float));
    return result;
  }

  void RunFirst(First how) {
    SubmitBoth(kSum, {}, kName);
    Stage();
    if (how == First::kNothing) {
      (void)Run(0, nullptr);
      return;
    }
    control::Verdict verdict;
    verdict.set_seq(1);
    if (how == First::kIsFetched) {
      // The second one lacks the last segments, which the first one has sent for the last time.
      (void)Run(0, [&](std::size_t from, const Frame& frame) {
        return from == 0 && frame.header.step == 1 && frame.header.segment == 0;
      });
      verdict.set_result_epoch(Epoch::Of(1, 1).value);
      for (const std::size_t index : {0, 1}) verdict.add_contributors(IdOf(index).value);
      for (bool again = true; std::exchange(again, false);) {
        while (auto frame = Next(1, 0)) {
          again = true;
          Receive(0, *frame);
        }
      }
      verdict.add_holders(IdOf(0).value);
    } else {
      int frames = 0;
      (void)Run(0, [&](std::size_t, const Frame&) { return ++frames == 5; });
      verdict.set_code(static_cast<std::uint32_t>(Code::kCancelled));
    }
    Install(2, how == First::kIsAborted ? std::vector<control::Verdict>{} : std::vector{verdict});
    Stage();
    (void)Run(0, nullptr);
  }

  void RunAgain(std::uint64_t feedback) {
    SubmitBoth(kSum, {}, feedback);
    Stage();
    (void)Run(0, nullptr);
  }

  // Inputs are copied in slices.
  void Stage() {
    for (bool again = true; again;) {
      again = WorkBoth();
      Drain();
    }
  }

  Status SubmitTo(std::size_t index, const Descriptor& descriptor, std::uint64_t feedback) {
    Submission submission;
    submission.descriptor = descriptor;
    submission.spec.feedback = feedback;
    submission.buffers =
        buffers::BuffersOf(nodes_[index].input, nodes_[index].result, descriptor.count * SizeOf(descriptor.dtype));
    return Node(index).Submit(std::move(submission), now_);
  }
};

TEST(FeedbackTest, ResidualIsAddedToTheNextContribution) {
  FeedbackRun with, without;
  with.RunFirst(First::kNothing);
  without.RunFirst(First::kNothing);
  EXPECT_EQ(with.Result(0), with.Result(1));
  const std::vector<float> first = with.Result(0);
  with.RunAgain(kName);
  without.RunAgain(0);
  EXPECT_EQ(with.Result(0), with.Result(1));
  EXPECT_EQ(without.Result(0), first) << "without, each operation loses the same";
  EXPECT_NE(with.Result(0), first);
  double error_with = 0, error_without = 0;
  for (std::size_t i = 0; i < kCount; ++i) {
    const double sum = 2 * (std::sin(static_cast<float>(i)) + std::sin(static_cast<float>(i * 2)));
    error_with += std::pow(first[i] + with.Result(0)[i] - sum, 2);
    error_without += std::pow(first[i] * 2 - sum, 2);
    if (i == 2000) break;
  }
  EXPECT_LT(error_with, error_without / 2);
}

TEST(FeedbackTest, WhatIsTriedAgainOrFetchedAdvancesItOnceAndWhatFailsNever) {
  FeedbackRun undisturbed;
  undisturbed.RunFirst(First::kNothing);
  const std::vector<float> first = undisturbed.Result(0);
  undisturbed.RunAgain(kName);
  for (const First how : {First::kIsAborted, First::kIsFetched}) {
    FeedbackRun run;
    run.RunFirst(how);
    EXPECT_EQ(run.Result(0), first) << static_cast<int>(how);
    EXPECT_EQ(run.Result(1), first) << static_cast<int>(how);
    run.RunAgain(kName);
    EXPECT_EQ(run.Result(0), undisturbed.Result(0)) << static_cast<int>(how);
    EXPECT_EQ(run.Result(1), undisturbed.Result(0)) << static_cast<int>(how);
  }
  FeedbackRun failed;
  failed.RunFirst(First::kFails);
  failed.RunAgain(kName);
  EXPECT_EQ(failed.Result(0), first);
  EXPECT_EQ(failed.Result(1), first);
}

TEST(FeedbackTest, ANameIsOfOneOperationAtATime) {
  FeedbackRun run;
  ASSERT_TRUE(run.SubmitTo(0, kSum, kName).ok());
  const Status busy = run.SubmitTo(0, kSum, kName);
  EXPECT_EQ(busy.code(), Code::kInvalidArgument);
  EXPECT_NE(busy.text().find("nothing was submitted"), std::string::npos);
  EXPECT_TRUE(run.SubmitTo(0, kSum, kName + 1).ok());
}

}  // namespace
}  // namespace ringway::agreement
