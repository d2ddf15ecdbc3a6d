// What ranks must agree on: descriptors, cancellation, time.
#include <gtest/gtest.h>

#include <csignal>
#include <string>
#include <vector>

#include "tests/e2e/cluster.h"

namespace ringway::e2e {
namespace {

class Agreement : public testing::Test {
 protected:
  void SetUp() override {
    ranks_ = cluster_.JoinWorld(3);
    ASSERT_EQ(ranks_.size(), 3u);
  }

  void ExpectWorks() {
    Round round(ranks_, {.reduction = {}, .count = 300, .number = 77});
    round.Submit();
    EXPECT_EQ(round.Check().world_size, 3u);
  }

  // Rank 2 submits something else than ranks 0 and 1 as the same operation; the text that all get names both.
  void ExpectMismatch(const RoundOptions& usual, const RoundOptions& other, const std::string& usual_text,
                      const std::string& other_text) {
    Round most(std::vector{ranks_[0].get(), ranks_[1].get()}, usual);
    Round one(std::vector{ranks_[2].get()}, other);
    most.Submit();
    one.Submit();
    for (const std::string& text : {most.CheckFailure(Code::kMismatch), one.CheckFailure(Code::kMismatch)}) {
      EXPECT_NE(text.find(usual_text), std::string::npos) << text;
      EXPECT_NE(text.find(other_text), std::string::npos) << text;
    }
    ExpectWorks();
  }

  Cluster cluster_{{.daemons = 3}};
  Sessions ranks_;
};

TEST_F(Agreement, DifferentCountsFailOnAllRanksAndNameBoth) {
  ExpectMismatch({.reduction = {}, .count = 100}, {.reduction = {}, .count = 101}, "100 f32", "101 f32");
  ExpectMismatch({.reduction = {}, .count = 1'000'000}, {.reduction = {}, .count = 3}, "1000000 f32", "3 f32");
  ExpectMismatch({.reduction = {}, .count = 0}, {.reduction = {}, .count = 3}, "0 f32", "3 f32");
}

TEST_F(Agreement, DifferentTypesFailOnAllRanksAndNameBoth) {
  ExpectMismatch({.reduction = {DType::kF32, ReduceOp::kSum, Codec::kNone}, .count = 500},
                 {.reduction = {DType::kI32, ReduceOp::kSum, Codec::kNone}, .count = 500}, "f32", "i32");
}

TEST_F(Agreement, DifferentReductionsFailOnAllRanksAndNameBoth) {
  ExpectMismatch({.reduction = {DType::kF32, ReduceOp::kSum, Codec::kNone}, .count = 500},
                 {.reduction = {DType::kF32, ReduceOp::kMax, Codec::kNone}, .count = 500}, "sum", "max");
}

TEST_F(Agreement, DifferentCodecsFailOnAllRanksAndNameBoth) {
  ExpectMismatch({.reduction = {DType::kF32, ReduceOp::kSum, Codec::kInt8}, .count = 50'000},
                 {.reduction = {DType::kF32, ReduceOp::kSum, Codec::kBf16}, .count = 50'000}, "int8", "bf16");
}

TEST_F(Agreement, CancelledOperationIsCancelledForAllAlsoForThoseWhoComeLater) {
  for (const std::size_t count : {100, 1'000'000}) {
    Round round(ranks_, {.reduction = {}, .count = count});
    round.SubmitOn(0);
    round.SubmitOn(1);
    EXPECT_TRUE(round.work(0).Cancel().ok());
    EXPECT_EQ(round.Wait(0, kPatience).error().code(), Code::kCancelled);
    EXPECT_EQ(round.Wait(1, kPatience).error().code(), Code::kCancelled);
    round.SubmitOn(2);
    round.CheckFailure(Code::kCancelled);
    ExpectWorks();
  }
}

TEST_F(Agreement, CancelTooLateChangesNothing) {
  Round round(ranks_);
  round.Submit();
  EXPECT_EQ(round.Check().world_size, 3u);
  EXPECT_TRUE(round.work(0).Cancel().ok());
  EXPECT_TRUE(round.Wait(0).ok());
  ExpectWorks();
}

TEST_F(Agreement, WaitThatTimesOutIsLocal) {
  Round round(ranks_, {.reduction = {}, .count = 500'000});
  round.SubmitOn(0);
  round.SubmitOn(1);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(round.Wait(0, Milliseconds(20)).error().code(), Code::kTimeout);
  EXPECT_FALSE(round.work(0).Test());
  round.SubmitOn(2);
  const OpResult result = round.Check();
  EXPECT_EQ(result.world_size, 3u);
  EXPECT_EQ(result.retries, 0u);
  EXPECT_TRUE(round.work(0).Test());
  EXPECT_TRUE(round.Wait(0).ok()) << "a second Wait gives the same";
}

TEST_F(Agreement, DroppedWorkGoesOnForTheOthers) {
  Round round(ranks_, {.reduction = {}, .count = 500'000});
  round.SubmitOn(0);
  round.work(0) = Work();
  round.SubmitOn(1);
  round.SubmitOn(2);
  EXPECT_EQ(round.Check().world_size, 3u);
  ExpectWorks();
}

TEST_F(Agreement, OperationsBeyondTheLimitAreRefusedAndTheOthersFinish) {
  constexpr std::uint64_t kInFlightMax = 256;
  std::vector<Work> works;
  float values[2] = {1, 0};
  for (std::uint64_t i = 0; i < kInFlightMax; ++i) {
    auto work = ranks_[0]->AllReduceAsync(&values[0], &values[1], 1, DType::kF32, ReduceOp::kSum);
    ASSERT_TRUE(work.ok()) << i << " " << work.error().text();
    works.push_back(std::move(*work));
  }
  EXPECT_EQ(ranks_[0]->AllReduceAsync(&values[0], &values[1], 1, DType::kF32, ReduceOp::kSum).error().code(),
            Code::kResourceExhausted);
  for (std::size_t rank = 1; rank < 3; ++rank) {
    for (std::uint64_t i = 0; i < kInFlightMax; ++i) {
      auto work = ranks_[rank]->AllReduceAsync(&values[0], &values[1], 1, DType::kF32, ReduceOp::kSum);
      ASSERT_TRUE(work.ok());
      works.push_back(std::move(*work));
    }
  }
  for (Work& work : works) {
    const Outcome outcome = work.Wait(kPatience);
    ASSERT_TRUE(outcome.ok()) << outcome.error().text();
    EXPECT_EQ(values[1], 3.0F);
  }
  ExpectWorks();
}

}  // namespace
}  // namespace ringway::e2e
