// Ranks must agree on descriptors, on cancellation and on time.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <future>
#include <string>
#include <vector>

#include "tests/e2e/checks.h"

namespace ringway::e2e {
namespace {

class Agreement : public testing::Test {
 protected:
  void SetUp() override {
    ranks_ = cluster_.JoinWorld(3);
    ASSERT_EQ(ranks_.size(), 3u);
  }

  Cluster cluster_{{.daemons = 3}};
  Sessions ranks_;
};

TEST_F(Agreement, DifferentReductionsFailOnAllRanksAndNameBoth) {
  ExpectMismatch(ranks_, {.reduction = {DType::kF32, ReduceOp::kSum, Codec::kNone}, .count = 500},
                 {.reduction = {DType::kF32, ReduceOp::kMax, Codec::kNone}, .count = 500}, "sum", "max");
}

TEST_F(Agreement, DifferentCodecsFailOnAllRanksAndNameBoth) {
  ExpectMismatch(ranks_, {.reduction = {DType::kF32, ReduceOp::kSum, Codec::kInt8}, .count = 50'000},
                 {.reduction = {DType::kF32, ReduceOp::kSum, Codec::kBf16}, .count = 50'000}, "int8", "bf16");
}

TEST_F(Agreement, CancelledOperationIsCancelledForAllAlsoForThoseWhoComeLater) {
  for (const std::size_t count : {100, 1'000'000}) {
    Round round(ranks_, {.reduction = {}, .count = count});
    round.SubmitOn(0);
    round.SubmitOn(1);
    EXPECT_TRUE(round.work(0).Cancel().ok());
    EXPECT_EQ(round.Wait(0, kPatience).status().code(), Code::kCancelled);
    EXPECT_EQ(round.Wait(1, kPatience).status().code(), Code::kCancelled);
    round.SubmitOn(2);
    round.CheckFailure(Code::kCancelled);
    ExpectWorks(ranks_);
  }
}

TEST_F(Agreement, CancelTooLateChangesNothing) {
  Round round(ranks_);
  round.Submit();
  EXPECT_EQ(round.Check().world_size, 3u);
  EXPECT_TRUE(round.work(0).Cancel().ok());
  EXPECT_TRUE(round.Wait(0).ok());
  ExpectWorks(ranks_);
}

TEST_F(Agreement, WaitThatTimesOutIsLocal) {
  Round round(ranks_, {.reduction = {}, .count = 500'000});
  round.SubmitOn(0);
  round.SubmitOn(1);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(round.Wait(0, Milliseconds(20)).status().code(), Code::kTimeout);
  EXPECT_FALSE(round.work(0).Test());
  round.SubmitOn(2);
  const OpResult result = round.Check();
  EXPECT_EQ(result.world_size, 3u);
  EXPECT_EQ(result.retries, 0u);
  EXPECT_TRUE(round.work(0).Test());
  EXPECT_TRUE(round.Wait(0).ok()) << "a second Wait returns the same";
}

TEST_F(Agreement, DroppedWorkGoesOnForTheOthers) {
  Round round(ranks_, {.reduction = {}, .count = 500'000});
  round.SubmitOn(0);
  round.work(0) = Work();
  round.SubmitOn(1);
  round.SubmitOn(2);
  EXPECT_EQ(round.Check().world_size, 3u);
  ExpectWorks(ranks_);
}

// The slow rank submits when the dropped input has long been written over.
TEST_F(Agreement, InputOfADroppedWorkCountsAsItWas) {
  constexpr std::size_t kCount = 500'000;
  std::vector<Buffer> inputs;
  std::vector<Buffer> outputs;
  for (const auto& rank : ranks_) {
    inputs.push_back(std::move(rank->Allocate(kCount * sizeof(float)).value()));
    outputs.push_back(std::move(rank->Allocate(kCount * sizeof(float)).value()));
    std::fill_n(inputs.back().as<float>(), kCount, static_cast<float>(inputs.size()));
  }
  const auto submit = [&](std::size_t rank) {
    return ranks_[rank]->AllReduceAsync(inputs[rank].data(), outputs[rank].data(), kCount, DType::kF32, ReduceOp::kSum);
  };
  ASSERT_TRUE(submit(0).ok()) << "and dropped";
  auto second = submit(1);
  std::fill_n(inputs[0].as<float>(), kCount, 100.0F);
  auto third = submit(2);
  for (auto* work : {&second, &third}) ASSERT_TRUE((*work)->Wait(kPatience).ok());
  for (const std::size_t rank : {1U, 2U}) {
    const float* const sum = outputs[rank].as<float>();
    EXPECT_EQ(std::count(sum, sum + kCount, 6.0F), static_cast<std::ptrdiff_t>(kCount));
  }
  std::vector<std::future<Code>> updates;
  for (const auto& rank : ranks_) {
    updates.push_back(std::async(std::launch::async, [&] { return rank->UpdateView(kPatience).status().code(); }));
  }
  for (auto& update : updates) EXPECT_EQ(update.get(), Code::kOk);
  ExpectWorks(ranks_);
}

// The daemon refuses the second for a name in use, when its Work is there already. The third must not take its place.
TEST_F(Agreement, RefusedSubmissionHoldsBackThoseAfterItUntilItIsKnown) {
  float values[3][3] = {{1, 10, 100}, {2, 20, 200}, {3, 30, 300}};
  const auto start = [&](std::size_t rank, std::size_t i, const std::string& feedback) {
    OpOptions options;
    if (!feedback.empty()) options.codec = Codec::kBf16;
    options.error_feedback = feedback;
    float* const value = &values[rank][i];
    auto work = ranks_[rank]->AllReduceAsync(value, value, 1, DType::kF32, ReduceOp::kSum, options);
    EXPECT_TRUE(work.ok()) << work.status().text();
    return std::move(*work);
  };
  Work first = start(0, 0, "name");
  Work second = start(0, 1, "name");
  Work third = start(0, 2, "");
  float other = 7;
  auto elsewhere = ranks_[0]->AllReduceAsync(&other, &other, 1, DType::kF32, ReduceOp::kSum, {.channel = 1});
  ASSERT_TRUE(elsewhere.ok());
  EXPECT_EQ(third.Wait(kPatience).status().code(), Code::kResourceExhausted);
  EXPECT_EQ(start(0, 2, "").Wait(kPatience).status().code(), Code::kResourceExhausted) << "the second is not known yet";
  EXPECT_EQ(second.Wait(kPatience).status().code(), Code::kInvalidArgument);
  second = start(0, 1, "");
  third = start(0, 2, "");
  std::vector<Work> works;
  for (const std::size_t rank : {1U, 2U}) {
    works.push_back(start(rank, 0, "name"));
    works.push_back(start(rank, 1, ""));
    works.push_back(start(rank, 2, ""));
    auto there = ranks_[rank]->AllReduceAsync(&values[rank][0], &values[rank][0], 1, DType::kF32, ReduceOp::kSum,
                                              {.channel = 1});
    ASSERT_TRUE(there.ok());
    works.push_back(std::move(*there));
  }
  for (Work* work : {&first, &second, &third, &*elsewhere}) EXPECT_TRUE(work->Wait(kPatience).ok());
  for (Work& work : works) EXPECT_TRUE(work.Wait(kPatience).ok());
  EXPECT_EQ(values[0][0], 6.0F);
  EXPECT_EQ(values[0][1], 60.0F);
  EXPECT_EQ(values[0][2], 600.0F);
  std::vector<std::future<Code>> updates;
  for (const auto& rank : ranks_) {
    updates.push_back(std::async(std::launch::async, [&] { return rank->UpdateView(kPatience).status().code(); }));
  }
  for (auto& update : updates) EXPECT_EQ(update.get(), Code::kOk);
}

TEST_F(Agreement, OperationsBeyondTheLimitAreRefusedAndTheOthersFinish) {
  constexpr std::uint64_t kInFlightMax = 256;
  std::vector<Work> works;
  float values[2] = {1, 0};
  for (std::uint64_t i = 0; i < kInFlightMax; ++i) {
    auto work = ranks_[0]->AllReduceAsync(&values[0], &values[1], 1, DType::kF32, ReduceOp::kSum);
    ASSERT_TRUE(work.ok()) << i << " " << work.status().text();
    works.push_back(std::move(*work));
  }
  EXPECT_EQ(ranks_[0]->AllReduceAsync(&values[0], &values[1], 1, DType::kF32, ReduceOp::kSum).status().code(),
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
    ASSERT_TRUE(outcome.ok()) << outcome.status().text();
    EXPECT_EQ(values[1], 3.0F);
  }
  ExpectWorks(ranks_);
}

}  // namespace
}  // namespace ringway::e2e
