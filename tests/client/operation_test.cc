// Operations from submission to outcome: placement, staging, waiting, errors, several threads.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <future>
#include <numeric>
#include <ringway/ringway.hpp>
#include <thread>
#include <vector>

#include "tests/client/fake_daemon.h"
#include "tests/client/joining.h"

namespace ringway {
namespace {

using std::chrono::seconds;
using testing::FakeDaemon;

class OperationTest : public ::testing::Test {
 protected:
  void SetUp() override {
    session_ = testing::MustJoin(testing::OptionsFor(daemon_));
    ASSERT_NE(session_, nullptr);
  }

  Result<Work> SubmitBytes(const void* input, void* output, std::size_t bytes, std::uint32_t channel = 0) {
    return session_->AllReduceAsync(input, output, bytes, DType::kU8, ReduceOp::kSum, {.channel = channel});
  }

  FakeDaemon daemon_;
  std::unique_ptr<Session> session_;
};

std::vector<std::uint8_t> Pattern(std::size_t bytes) {
  std::vector<std::uint8_t> values(bytes);
  std::iota(values.begin(), values.end(), std::uint8_t{3});
  return values;
}

std::vector<std::uint8_t> PlusOne(std::vector<std::uint8_t> values) {
  for (std::uint8_t& value : values) ++value;
  return values;
}

TEST_F(OperationTest, SmallArbitraryMemoryIsCopiedBeforeSubmission) {
  const auto input = Pattern(1000);
  std::vector<std::uint8_t> output(1000);
  const auto result = session_->AllReduce(input.data(), output.data(), 1000, DType::kU8, ReduceOp::kSum);
  ASSERT_TRUE(result.ok()) << result.status().text();
  EXPECT_EQ(output, PlusOne(input));
  EXPECT_EQ(daemon_.Look().submits.at(0).staged, 0u);
  EXPECT_EQ(input, Pattern(1000));
}

TEST_F(OperationTest, LargeArbitraryMemoryIsStagedInPieces) {
  const std::size_t bytes = (std::size_t{9} << 20) + 5;
  const auto input = Pattern(bytes);
  std::vector<std::uint8_t> output(bytes);
  const auto result = session_->AllReduce(input.data(), output.data(), bytes, DType::kU8, ReduceOp::kSum);
  ASSERT_TRUE(result.ok()) << result.status().text();
  EXPECT_TRUE(output == PlusOne(input));
  ASSERT_TRUE(daemon_.WaitUntil([](const FakeDaemon::Seen& seen) { return seen.progress.size() == 3; }));
  EXPECT_EQ(daemon_.Look().submits.at(0).staged, 1u);
  EXPECT_EQ(daemon_.Look().progress.back(), bytes);
}

TEST_F(OperationTest, BuffersAreUsedWithoutACopy) {
  auto input = session_->Allocate(4096);
  auto output = session_->Allocate(4096);
  ASSERT_TRUE(input.ok() && output.ok());
  std::memset(input->data(), 7, 4096);
  auto work = SubmitBytes(input->as<std::uint8_t>() + 256, output->as<std::uint8_t>() + 512, 1024);
  ASSERT_TRUE(work.ok()) << work.status().text();
  ASSERT_TRUE(work->Wait().ok());
  EXPECT_EQ(output->as<std::uint8_t>()[512], 8);
  EXPECT_EQ(output->as<std::uint8_t>()[512 + 1023], 8);
  const auto seen = daemon_.Look();
  EXPECT_EQ(seen.region_bytes.size(), 2u);
  EXPECT_EQ(seen.submits.at(0).input_offset_bytes, 256u);
  EXPECT_EQ(seen.submits.at(0).result_offset_bytes, 512u);
  EXPECT_NE(seen.submits.at(0).input_region, seen.submits.at(0).result_region);
}

TEST_F(OperationTest, UnalignedPartsOfBuffersAreCopied) {
  auto buffer = session_->Allocate(4096);
  ASSERT_TRUE(buffer.ok());
  std::memset(buffer->data(), 7, 4096);
  std::uint8_t* const odd = buffer->as<std::uint8_t>() + 1;
  ASSERT_TRUE(session_->AllReduce(odd, odd, 100, DType::kF32, ReduceOp::kSum).ok());
  EXPECT_EQ(odd[399], 8);
  EXPECT_EQ(odd[400], 7);
  EXPECT_EQ(daemon_.Look().submits.at(0).input_offset_bytes, 0u);
}

TEST_F(OperationTest, InPlaceIsWrittenOnlyInWaitAfterCommit) {
  auto buffer = session_->Allocate(1000);
  ASSERT_TRUE(buffer.ok());
  std::memset(buffer->data(), 7, 1000);
  auto work = SubmitBytes(buffer->data(), buffer->data(), 1000);
  ASSERT_TRUE(work.ok());
  while (!work->Test()) std::this_thread::yield();
  EXPECT_EQ(buffer->as<std::uint8_t>()[0], 7);
  ASSERT_TRUE(work->Wait().ok());
  EXPECT_EQ(buffer->as<std::uint8_t>()[0], 8);
  EXPECT_NE(daemon_.Look().submits.at(0).input_region, daemon_.Look().submits.at(0).result_region);
}

TEST_F(OperationTest, ResultCarriesWorldAndUpdatesTheSession) {
  daemon_.SetWorld(12, 1, 3);
  std::uint8_t value = 1;
  auto work = SubmitBytes(&value, &value, 1);
  const auto result = work->Wait();
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result.value().contributors, (std::vector<std::uint64_t>{77, 78, 79}));
  EXPECT_EQ(result.value().retries, 1u);
  EXPECT_EQ(result.value().wire_bytes, 5u);
  EXPECT_TRUE(result.value().update_waits);
  EXPECT_EQ(session_->epoch(), 12u);
  EXPECT_EQ(session_->rank(), 1u);
  EXPECT_EQ(session_->world_size(), 3u);
  // A second Wait says the same and copies nothing again.
  value = 100;
  EXPECT_EQ(work->Wait().value().epoch, 12u);
  EXPECT_EQ(value, 100);
}

TEST_F(OperationTest, CountZeroNeedsNoMemory) {
  EXPECT_TRUE(session_->AllReduce(nullptr, nullptr, 0, DType::kF32, ReduceOp::kSum).ok());
}

TEST_F(OperationTest, ErrorLeavesTheOutputUntouched) {
  daemon_.SetHolds(true);
  auto values = Pattern(100);
  auto work = SubmitBytes(values.data(), values.data(), 100);
  ASSERT_TRUE(work.ok());
  ASSERT_TRUE(daemon_.WaitUntil([](const FakeDaemon::Seen& seen) { return seen.submits.size() == 1; }));
  daemon_.FailHeld(Code::kMismatch, "rank 0: count 5, rank 1: count 6");
  const auto result = work->Wait();
  EXPECT_EQ(result.status().code(), Code::kMismatch);
  EXPECT_EQ(result.status().text(), "rank 0: count 5, rank 1: count 6");
  EXPECT_EQ(values, Pattern(100));
}

TEST_F(OperationTest, TimeoutIsLocalAndTheOperationGoesOn) {
  daemon_.SetHolds(true);
  std::uint8_t value = 1;
  auto work = SubmitBytes(&value, &value, 1);
  EXPECT_FALSE(work->Test());
  EXPECT_EQ(work->Wait(Milliseconds(20)).status().code(), Code::kTimeout);
  EXPECT_EQ(work->Wait(Milliseconds(0)).status().code(), Code::kTimeout);
  ASSERT_TRUE(daemon_.WaitUntil([](const FakeDaemon::Seen& seen) { return seen.submits.size() == 1; }));
  daemon_.CompleteHeld();
  EXPECT_TRUE(work->Wait().ok());
  EXPECT_EQ(value, 2);
}

TEST_F(OperationTest, CancelIsARequestWithAnAgreedOutcome) {
  daemon_.SetHolds(true);
  std::uint8_t value = 1;
  auto work = SubmitBytes(&value, &value, 1);
  ASSERT_TRUE(work->Cancel().ok());
  EXPECT_EQ(work->Wait().status().code(), Code::kCancelled);
  EXPECT_EQ(value, 1);
}

TEST_F(OperationTest, DaemonDeathDuringWaitIsReportedAtOnceToEveryWaiter) {
  daemon_.SetHolds(true);
  auto values = Pattern(64);
  std::vector<std::thread> waiters;
  std::atomic<int> lost = 0;
  for (std::uint32_t channel = 0; channel < 4; ++channel) {
    waiters.emplace_back([&, channel] {
      auto work = SubmitBytes(values.data() + 16 * channel, values.data() + 16 * channel, 16, channel);
      if (work.ok() && work->Wait().status().code() == Code::kDaemonLost) ++lost;
    });
  }
  ASSERT_TRUE(daemon_.WaitUntil([](const FakeDaemon::Seen& seen) { return seen.submits.size() == 4; }));
  daemon_.Die();
  for (std::thread& waiter : waiters) waiter.join();
  EXPECT_EQ(lost, 4);
  EXPECT_EQ(values, Pattern(64));
}

TEST_F(OperationTest, WhatWasCommittedBeforeTheDaemonsDeathIsASuccess) {
  auto values = Pattern(64);
  auto work = SubmitBytes(values.data(), values.data(), 64);
  ASSERT_TRUE(daemon_.WaitUntil([](const FakeDaemon::Seen& seen) { return seen.submits.size() == 1; }));
  daemon_.Die();
  EXPECT_EQ(session_->Leave().code(), Code::kDaemonLost);
  EXPECT_TRUE(work->Wait().ok());
  EXPECT_EQ(values, PlusOne(Pattern(64)));
}

TEST_F(OperationTest, EndedReachesWaiters) {
  daemon_.SetHolds(true);
  std::uint8_t value = 1;
  auto work = SubmitBytes(&value, &value, 1);
  daemon_.SendEnded(Code::kShuttingDown, "the daemon stops");
  EXPECT_EQ(work->Wait().status().code(), Code::kShuttingDown);
  EXPECT_TRUE(work->Test());
}

TEST_F(OperationTest, DestroyedSessionReleasesItsWaiters) {
  daemon_.SetHolds(true);
  std::uint8_t value = 1;
  auto work = SubmitBytes(&value, &value, 1);
  std::thread waiter([&] { EXPECT_EQ(work->Wait().status().code(), Code::kLeft); });
  session_.reset();
  waiter.join();
}

TEST_F(OperationTest, SlotsAreBoundedAndComeBack) {
  daemon_.SetHolds(true);
  std::vector<std::uint8_t> values(abi::kSlotCount);
  std::vector<Work> works;
  for (std::uint32_t i = 0; i < abi::kSlotCount; ++i) {
    auto work = SubmitBytes(&values[i], &values[i], 1);
    ASSERT_TRUE(work.ok()) << i << ": " << work.status().text();
    works.push_back(std::move(work.value()));
  }
  std::uint8_t more = 0;
  EXPECT_EQ(SubmitBytes(&more, &more, 1).status().code(), Code::kResourceExhausted);
  const auto all_came = [](const FakeDaemon::Seen& seen) { return seen.submits.size() == abi::kSlotCount; };
  ASSERT_TRUE(daemon_.WaitUntil(all_came));
  daemon_.SetHolds(false);
  daemon_.CompleteHeld();
  for (Work& work : works) EXPECT_TRUE(work.Wait().ok());
  EXPECT_EQ(values, std::vector<std::uint8_t>(abi::kSlotCount, 1));
  EXPECT_TRUE(SubmitBytes(&more, &more, 1).ok());
}

TEST_F(OperationTest, DetachedOperationsKeepTheirSlotsUntilDone) {
  daemon_.SetHolds(true);
  std::vector<std::uint8_t> values(abi::kSlotCount);
  for (std::uint32_t i = 0; i < abi::kSlotCount; ++i) ASSERT_TRUE(SubmitBytes(&values[i], &values[i], 1).ok());
  EXPECT_EQ(SubmitBytes(values.data(), values.data(), 1).status().code(), Code::kResourceExhausted);
  EXPECT_EQ(session_->UpdateView(Milliseconds(1)).status().code(), Code::kTimeout);
  const auto all_came = [](const FakeDaemon::Seen& seen) { return seen.submits.size() == abi::kSlotCount; };
  ASSERT_TRUE(daemon_.WaitUntil(all_came));
  daemon_.CompleteHeld();
  EXPECT_TRUE(SubmitBytes(values.data(), values.data(), 1).ok());
  // The results of detached operations are dropped.
  EXPECT_EQ(values, std::vector<std::uint8_t>(abi::kSlotCount, 0));
}

TEST_F(OperationTest, DroppedWorkGoesOnWithItsInputAsItWas) {
  constexpr std::size_t kBytes = 3 * 4096 + 10;
  daemon_.SetHolds(true);
  auto input = session_->Allocate(kBytes);
  auto output = session_->Allocate(kBytes);
  std::memset(input->data(), 7, kBytes);
  {
    const auto work = SubmitBytes(input->data(), output->data(), kBytes);
    ASSERT_TRUE(work.ok());
  }
  std::memset(input->data(), 90, kBytes);  // the next gradient
  ASSERT_TRUE(daemon_.WaitUntil([](const FakeDaemon::Seen& seen) { return seen.submits.size() == 1; }));
  daemon_.CompleteHeld();
  daemon_.SetHolds(false);
  std::vector<std::uint8_t> sent(kBytes, 7);
  // Nobody has written there: it shows what the daemon did.
  EXPECT_EQ(std::memcmp(output->data(), PlusOne(sent).data(), kBytes), 0);
  // A device that pinned the old pages would write past what is mapped now: neither is taken for operations any more.
  std::vector<std::uint8_t> heap(kBytes);
  for (void* const left : {input->data(), output->data()}) {
    const auto refused = session_->AllReduce(left, heap.data(), kBytes, DType::kU8, ReduceOp::kSum);
    EXPECT_EQ(refused.status().code(), Code::kInvalidArgument);
    EXPECT_NE(refused.status().text().find("allocate another"), std::string::npos) << refused.status().text();
    EXPECT_EQ(session_->AllReduce(heap.data(), left, kBytes, DType::kU8, ReduceOp::kSum).status().code(),
              Code::kInvalidArgument);
  }
}

TEST_F(OperationTest, BuffersOfDroppedWorksLeaveNothingBehind) {
  daemon_.SetHolds(true);
  constexpr std::uint32_t kTurns = 20;
  for (std::uint32_t turn = 1; turn <= kTurns; ++turn) {
    {
      auto buffer = session_->Allocate(1000);
      { const auto work = SubmitBytes(buffer->data(), buffer->data(), 1000); }
    }
    ASSERT_TRUE(daemon_.WaitUntil([&](const FakeDaemon::Seen& seen) { return seen.submits.size() == turn; }));
    daemon_.CompleteHeld();
  }
  std::uint8_t value = 1;
  daemon_.SetHolds(false);
  ASSERT_TRUE(session_->AllReduce(&value, &value, 1, DType::kU8, ReduceOp::kSum).ok());
  EXPECT_TRUE(daemon_.WaitUntil([](const FakeDaemon::Seen& seen) { return seen.unregistered == kTurns; }));
}

// Two tensors of one page: what is written to one after its Work was dropped must not hide the other's result.
TEST_F(OperationTest, ResultBesideADroppedOneIsWhole) {
  daemon_.SetHolds(true);
  auto inputs = session_->Allocate(200);
  auto outputs = session_->Allocate(200);
  std::memset(inputs->data(), 7, 200);
  auto kept = SubmitBytes(inputs->as<std::uint8_t>() + 100, outputs->as<std::uint8_t>() + 100, 100);
  { const auto dropped = SubmitBytes(inputs->data(), outputs->data(), 100, 1); }
  std::memset(outputs->data(), 90, 100);
  ASSERT_TRUE(daemon_.WaitUntil([](const FakeDaemon::Seen& seen) { return seen.submits.size() == 2; }));
  daemon_.CompleteHeld();
  ASSERT_TRUE(kept->Wait().ok());
  EXPECT_EQ(outputs->as<std::uint8_t>()[100], 8);
  EXPECT_EQ(outputs->as<std::uint8_t>()[199], 8);
  EXPECT_EQ(outputs->as<std::uint8_t>()[99], 90);
}

TEST_F(OperationTest, RegionOfADroppedWorkIsNotUsedAgain) {
  daemon_.SetHolds(true);
  {
    auto buffer = session_->Allocate(1000);
    { const auto work = SubmitBytes(buffer->data(), buffer->data(), 1000); }
    std::memset(buffer->data(), 90, 1000);
  }
  ASSERT_TRUE(daemon_.WaitUntil([](const FakeDaemon::Seen& seen) { return seen.submits.size() == 1; }));
  daemon_.CompleteHeld();
  daemon_.SetHolds(false);
  std::vector<std::vector<std::uint8_t>> values(4, std::vector<std::uint8_t>(1000, 7));
  std::vector<Work> works;
  for (auto& one : values) works.push_back(std::move(SubmitBytes(one.data(), one.data(), 1000).value()));
  for (Work& work : works) ASSERT_TRUE(work.Wait().ok());
  EXPECT_EQ(values, std::vector(4, std::vector<std::uint8_t>(1000, 8)));
}

TEST_F(OperationTest, UpdateViewWaitsForWhatDroppedWorksGoOnWith) {
  daemon_.SetHolds(true);
  std::uint8_t value = 1;
  { const auto dropped = SubmitBytes(&value, &value, 1, 3); }
  auto update = std::async(std::launch::async, [this] { return session_->UpdateView().status().code(); });
  ASSERT_TRUE(daemon_.WaitUntil([](const FakeDaemon::Seen& seen) { return seen.submits.size() == 1; }));
  EXPECT_EQ(update.wait_for(Milliseconds(20)), std::future_status::timeout);
  daemon_.SetHolds(false);
  daemon_.CompleteHeld();
  EXPECT_EQ(update.get(), Code::kOk);
  EXPECT_EQ(daemon_.Look().submits.at(1).spec.kind, OpKind::kUpdateView);
}

TEST_F(OperationTest, UpdateViewAfterOtherOperationsIsAnotherOne) {
  daemon_.SetHolds(true);
  EXPECT_EQ(session_->UpdateView(Milliseconds(10)).status().code(), Code::kTimeout);
  EXPECT_TRUE(daemon_.WaitUntil([](const FakeDaemon::Seen& seen) { return seen.submits.size() == 1; }));
  daemon_.CompleteHeld();
  daemon_.SetHolds(false);
  std::uint8_t value = 1;
  EXPECT_TRUE(session_->AllReduce(&value, &value, 1, DType::kU8, ReduceOp::kSum).ok());
  EXPECT_TRUE(session_->UpdateView().ok());
  const auto submits = daemon_.Look().submits;
  ASSERT_EQ(submits.size(), 3u);
  EXPECT_EQ(submits[2].spec.kind, OpKind::kUpdateView);
}

TEST_F(OperationTest, UpdateViewAfterAMessageIsTheSame) {
  daemon_.SetWorld(5, 0, 2);
  ASSERT_TRUE(session_->UpdateView().ok());
  daemon_.SetHolds(true);
  EXPECT_EQ(session_->UpdateView(Milliseconds(10)).status().code(), Code::kTimeout);
  ASSERT_TRUE(daemon_.WaitUntil([](const FakeDaemon::Seen& seen) { return seen.submits.size() == 2; }));
  const std::uint8_t value = 1;
  auto sent = session_->SendAsync(&value, 1, DType::kU8, 1);
  ASSERT_TRUE(sent.ok()) << sent.status().text();
  ASSERT_TRUE(daemon_.WaitUntil([](const FakeDaemon::Seen& seen) { return seen.submits.size() == 3; }));
  daemon_.CompleteHeld();
  EXPECT_TRUE(sent->Wait().ok());
  EXPECT_TRUE(session_->UpdateView().ok());
  EXPECT_EQ(daemon_.Look().submits.size(), 3u);
}

TEST_F(OperationTest, UpdateViewWaitsForTheSameUpdateAfterATimeout) {
  daemon_.SetHolds(true);
  EXPECT_EQ(session_->UpdateView(Milliseconds(10)).status().code(), Code::kTimeout);
  ASSERT_TRUE(daemon_.WaitUntil([](const FakeDaemon::Seen& seen) { return seen.submits.size() == 1; }));
  daemon_.SetWorld(5, 1, 2);
  daemon_.CompleteHeld();
  const auto result = session_->UpdateView();
  ASSERT_TRUE(result.ok()) << result.status().text();
  EXPECT_EQ(result.status().code(), Code::kOk);
  EXPECT_EQ(session_->world_size(), 2u);
  EXPECT_EQ(daemon_.Look().submits.size(), 1u);
  EXPECT_EQ(daemon_.Look().submits.at(0).spec.kind, OpKind::kUpdateView);
}

TEST_F(OperationTest, SeveralThreadsReduceOnTheirOwnChannels) {
  constexpr std::uint32_t kThreads = 6;
  std::vector<std::thread> threads;
  std::atomic<int> right = 0;
  for (std::uint32_t channel = 0; channel < kThreads; ++channel) {
    threads.emplace_back([&, channel] {
      for (std::size_t round = 0; round < 50; ++round) {
        const auto input = Pattern(100 + 3000 * channel + round);
        std::vector<std::uint8_t> output(input.size());
        auto work = SubmitBytes(input.data(), output.data(), input.size(), channel);
        if (work.ok() && work->Wait(seconds(60)).ok() && output == PlusOne(input)) ++right;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 50 * static_cast<int>(kThreads));
}

TEST_F(OperationTest, StagingRegionsThatFoundNoRoomAreRegisteredAnew) {
  daemon_.SetRefusesRegions(true);
  auto values = Pattern(1000);
  const auto reduce = [&] {
    return session_->AllReduce(values.data(), values.data(), 1000, DType::kU8, ReduceOp::kSum);
  };
  EXPECT_EQ(reduce().status().code(), Code::kResourceExhausted);
  daemon_.SetRefusesRegions(false);
  const auto result = reduce();
  EXPECT_TRUE(result.ok()) << result.status().text();
  EXPECT_EQ(values, PlusOne(Pattern(1000)));
}

TEST_F(OperationTest, BuffersThatFoundNoRoomAreRegisteredAnew) {
  daemon_.SetRefusesRegions(true);
  auto input = session_->Allocate(1000);
  auto output = session_->Allocate(1000);
  ASSERT_TRUE(input.ok() && output.ok());
  std::memset(input->data(), 7, 1000);
  const auto submit = [&] { return SubmitBytes(input->data(), output->data(), 1000); };
  auto first = submit();
  auto second = submit();
  EXPECT_EQ(first->Wait().status().code(), Code::kResourceExhausted);
  EXPECT_EQ(submit()->Wait().status().code(), Code::kResourceExhausted);
  EXPECT_EQ(daemon_.Look().region_bytes.size(), 2U) << "the second operation is still on the regions";
  EXPECT_EQ(second->Wait().status().code(), Code::kResourceExhausted);
  daemon_.SetRefusesRegions(false);
  const auto result = session_->AllReduce(input->data(), output->data(), 1000, DType::kU8, ReduceOp::kSum);
  ASSERT_TRUE(result.ok()) << result.status().text();
  EXPECT_EQ(output->as<std::uint8_t>()[999], 8);
  EXPECT_EQ(daemon_.Look().region_bytes.size(), 4U);
}

TEST_F(OperationTest, RefusalForLackOfRoomGivesFreeRegionsBack) {
  auto values = Pattern(1000);
  auto larger = Pattern(300'000);
  const auto reduce = [&](std::vector<std::uint8_t>& bytes) {
    return session_->AllReduce(bytes.data(), bytes.data(), bytes.size(), DType::kU8, ReduceOp::kSum);
  };
  ASSERT_TRUE(reduce(values).ok());
  daemon_.SetRefusesRegions(true);
  EXPECT_EQ(reduce(larger).status().code(), Code::kResourceExhausted);
  EXPECT_TRUE(daemon_.WaitUntil([](const FakeDaemon::Seen& seen) { return seen.unregistered == 4; }));
}

TEST_F(OperationTest, WrongRequestsAreRefusedByName) {
  float values[8] = {};
  const auto code = [&](const void* input, void* output, std::size_t count, DType dtype, ReduceOp op,
                        const OpOptions& options = {}) {
    return session_->AllReduce(input, output, count, dtype, op, options).status().code();
  };
  EXPECT_EQ(code(values, values, 2, DType::kI32, ReduceOp::kAvg), Code::kNotSupported);
  EXPECT_EQ(code(values, values, 2, DType::kF64, ReduceOp::kSum, {.codec = Codec::kInt8}), Code::kNotSupported);
  EXPECT_EQ(code(values, values, 2, DType::kF32, ReduceOp::kSum, {.codec = {Codec::kInt8, 1}}), Code::kNotSupported);
  EXPECT_EQ(code(values, values, 2, static_cast<DType>(99), ReduceOp::kSum), Code::kNotSupported);
  EXPECT_EQ(code(nullptr, values, 2, DType::kF32, ReduceOp::kSum), Code::kInvalidArgument);
  EXPECT_EQ(code(values, nullptr, 2, DType::kF32, ReduceOp::kSum), Code::kInvalidArgument);
  EXPECT_EQ(code(values, values + 1, 2, DType::kF32, ReduceOp::kSum), Code::kInvalidArgument);
  EXPECT_EQ(code(values, values, std::size_t{1} << 62, DType::kF32, ReduceOp::kSum), Code::kInvalidArgument);
  EXPECT_EQ(code(values, values, 2, DType::kF32, ReduceOp::kSum, {.channel = 64}), Code::kInvalidArgument);
  for (const int unknown : {int{kAlgorithmCount}, 255}) {
    const OpOptions options{.algorithm = static_cast<Algorithm>(unknown)};
    EXPECT_EQ(code(values, values, 2, DType::kF32, ReduceOp::kSum, options), Code::kNotSupported) << unknown;
  }
  auto buffer = session_->Allocate(64);
  EXPECT_EQ(code(buffer->as<float>() + 15, values, 2, DType::kF32, ReduceOp::kSum), Code::kInvalidArgument);
  EXPECT_EQ(code(values, buffer->as<float>() + 15, 2, DType::kF32, ReduceOp::kSum), Code::kInvalidArgument);
  EXPECT_TRUE(daemon_.Look().submits.empty());
}

TEST_F(OperationTest, EmptyHandlesAreRefused) {
  Work work;
  EXPECT_FALSE(work.valid());
  EXPECT_TRUE(work.Test());
  EXPECT_EQ(work.Wait().status().code(), Code::kInvalidArgument);
  EXPECT_EQ(work.Cancel().code(), Code::kInvalidArgument);
  EXPECT_EQ(Buffer().data(), nullptr);
}

}  // namespace
}  // namespace ringway
