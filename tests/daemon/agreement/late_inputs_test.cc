// Inputs that come late and are kept for the next operation (`late` = next): of two ranks, the first goes on alone.
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <optional>
#include <utility>

#include "tests/daemon/agreement/duo.h"

namespace ringway::agreement {
namespace {

using std::chrono::milliseconds;

class LateInputsTest : public DuoTest {
 protected:
  static constexpr std::uint64_t kCount = 100;

  LateInputsTest() { Fill(0, 0); }

  static Descriptor SumOf(std::uint64_t count, Quorum quorum = Quorum::Ranks(1)) {
    Descriptor sum{OpKind::kAllReduce, DType::kF32, ReduceOp::kSum, Codec::kNone, Algorithm::kRing, count};
    sum.quorum = quorum.code;
    return sum;
  }
  void Fill(std::size_t index, float value) {
    for (std::size_t i = 0; i < kCount; ++i)
      std::memcpy(nodes_[index].input.data() + i * sizeof(float), &value, sizeof(value));
  }
  float Result(std::size_t index) const {
    float first = 0;
    std::memcpy(&first, nodes_[index].result.data(), sizeof(first));
    return first;
  }
  // The second rank's keep what comes late.
  Status Submit(std::size_t index, std::uint64_t token, const Descriptor& descriptor,
                std::optional<std::uint64_t> input_ready = {}, Duration time_limit = {}) {
    Submission submission;
    submission.token = token;
    submission.descriptor = descriptor;
    submission.spec.quorum = descriptor.quorum;
    submission.spec.algorithm = abi::CodeOf(algorithm_);
    submission.time_limit = time_limit;
    if (index == 1) {
      submission.spec.feedback = 7;
      submission.spec.late = Late::kNext;
    }
    submission.buffers = buffers::BuffersOf(nodes_[index].input, nodes_[index].result,
                                            descriptor.count * SizeOf(descriptor.dtype), input_ready);
    Status submitted = Node(index).Submit(std::move(submission), now_);
    Pump();
    return submitted;
  }
  void Pump() {
    Drain();
    for (bool again = true; again;) {
      again = WorkBoth();
      Drain();
      (void)Run(0, nullptr);
    }
  }
  void Pass(Duration time) {
    now_ += time;
    for (const std::size_t index : {0, 1}) Node(index).Tick(now_);
    Pump();
  }
  // The first rank does this operation alone, and the other one comes to it.
  void Miss(std::uint64_t token, float value, std::optional<std::uint64_t> input_ready = {}) {
    GoAlone(token);
    Fill(1, value);
    EXPECT_TRUE(Submit(1, token, SumOf(kCount), input_ready).ok());
    Pass(milliseconds(5));
  }
  void GoAlone(std::uint64_t token) {
    ASSERT_TRUE(Submit(0, token, SumOf(kCount)).ok());
    Pass(milliseconds(5));
    ASSERT_TRUE(IsDone(0, token));
  }
  // Returns what the second rank has contributed to an operation that waits for both.
  float Contribution(std::uint64_t token, float value) {
    Fill(1, value);
    EXPECT_TRUE(Submit(1, token, SumOf(kCount, Quorum::Ranks(2))).ok());
    EXPECT_TRUE(Submit(0, token, SumOf(kCount, Quorum::Ranks(2))).ok());
    Pass(milliseconds(5));
    EXPECT_TRUE(IsDone(0, token) && IsDone(1, token));
    return Result(0);
  }
  bool IsDone(std::size_t index, std::uint64_t token) const { return nodes_[index].done.contains(token); }

  std::optional<Algorithm> algorithm_;  // of all submissions; nullopt: the plan's
};

TEST_F(LateInputsTest, OneThatIsKeptIsInTheNextSum) {
  Miss(1, 1000);
  EXPECT_TRUE(IsDone(1, 1));
  EXPECT_EQ(Contribution(2, 1), 1001);
  EXPECT_EQ(Contribution(3, 1), 1) << "once";
}

// What was kept before stays, and what is incomplete is not added to it.
TEST_F(LateInputsTest, OneThatStaysIncompleteIsGivenUpWhenItIsCancelled) {
  Miss(1, 1000);
  Miss(2, 1, kCount);
  EXPECT_FALSE(IsDone(1, 2)) << "a quarter of it is there";
  Node(1).Cancel(2, now_);
  Pump();
  EXPECT_TRUE(IsDone(1, 2));
  EXPECT_EQ(Contribution(3, 1), 1001);
}

TEST_F(LateInputsTest, OneThatStaysIncompleteIsGivenUpAtTheDeadline) {
  Miss(1, 1000);
  Miss(2, 1, kCount);
  Node(1).SetDeadline(2, milliseconds(100), now_);
  Pass(milliseconds(99));
  EXPECT_FALSE(IsDone(1, 2));
  Pass(milliseconds(1));
  EXPECT_TRUE(IsDone(1, 2));
  EXPECT_EQ(Contribution(3, 1), 1001);
}

TEST_F(LateInputsTest, ATimeLimitHoldsForOneThatComesAfterTheResult) {
  GoAlone(1);
  ASSERT_TRUE(Submit(1, 1, SumOf(kCount), kCount, milliseconds(100)).ok());
  Pass(milliseconds(99));
  EXPECT_FALSE(IsDone(1, 1));
  Pass(milliseconds(1));
  EXPECT_TRUE(IsDone(1, 1));
}

TEST_F(LateInputsTest, OneThatIsWholeWhenItIsCancelledIsKept) {
  Miss(1, 1000, kCount);
  Node(1).OnStaged(1, kCount * sizeof(float));
  Node(1).Cancel(1, now_);
  Pump();
  EXPECT_TRUE(IsDone(1, 1));
  EXPECT_EQ(Contribution(2, 1), 1001);
}

TEST_F(LateInputsTest, OneThatStaysIncompleteAbortsNoView) {
  Miss(1, 1000, kCount);
  for (Duration passed{}; passed < 3 * Watchdog::kPatience; passed += milliseconds(100)) Pass(milliseconds(100));
  EXPECT_FALSE(Said(1, "operation_stuck"));
  EXPECT_FALSE(IsDone(1, 1));
  Node(1).OnStaged(1, kCount * sizeof(float));
  Pump();
  EXPECT_TRUE(IsDone(1, 1));
  EXPECT_EQ(Contribution(2, 1), 1001);
}

TEST_F(LateInputsTest, OneThatAsksForTheAlgorithmOfTheOthersIsTaken) {
  algorithm_ = Algorithm::kDirect;
  Miss(1, 1000);
  EXPECT_TRUE(IsDone(1, 1));
  GoAlone(2);
  algorithm_ = Algorithm::kNaive;
  EXPECT_EQ(Submit(1, 2, SumOf(kCount)).code(), Code::kInvalidArgument);
  algorithm_.reset();
  EXPECT_TRUE(Submit(1, 2, SumOf(kCount)).ok()) << "whatever theirs is";
}

TEST_F(LateInputsTest, ARefusedSubmissionLeavesWhatIsKept) {
  Miss(1, 1000);
  GoAlone(2);
  EXPECT_EQ(Submit(1, 9, SumOf(kCount / 2)).code(), Code::kInvalidArgument) << "the group went on with another";
  Fill(1, 1);
  ASSERT_TRUE(Submit(1, 2, SumOf(kCount)).ok());
  EXPECT_EQ(Contribution(3, 1), 1002);
}

}  // namespace
}  // namespace ringway::agreement
