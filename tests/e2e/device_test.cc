// Groups whose trainers reduce device memory: real daemons, the tests' device, and devices that fail in the middle.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "tests/device/test_device.h"
#include "tests/e2e/checks.h"
#include "tests/e2e/cluster.h"

namespace ringway::e2e {
namespace {

using ringway::testing::TestDevice;
using ringway::testing::TestStream;

// Before anything asks for a device library.
[[maybe_unused]] const int kChosen = ::setenv("RINGWAY_DEVICE_LIBRARY", RINGWAY_TEST_DEVICE_PATH, 1);

constexpr std::size_t kLarge = 3'000'001;

std::vector<Session*> First(const Sessions& ranks, std::size_t count) {
  std::vector<Session*> some;
  for (std::size_t i = 0; i < count; ++i) some.push_back(ranks[i].get());
  return some;
}

std::vector<Session*> Others(const Sessions& ranks) { return {ranks[1].get(), ranks[2].get()}; }

class Device : public ::testing::Test {
 protected:
  ~Device() override { TestDevice::Get().Reset(); }
};

TEST_F(Device, EverySizeAndCollectiveIsRight) {
  Cluster cluster({.daemons = 3});
  const Sessions ranks = cluster.JoinWorld(3);
  ASSERT_EQ(ranks.size(), 3U);
  TestDevice::Get().SetFaults({.delay_us = 500});
  ExpectDeviceMemoryIsRight(ranks);
}

TEST_F(Device, CodecsAndManyInFlightOnChannelsAreRight) {
  Cluster cluster({.daemons = 3});
  const Sessions ranks = cluster.JoinWorld(3);
  ASSERT_EQ(ranks.size(), 3U);
  TestDevice::Get().SetFaults({.delay_us = 300});
  std::vector<std::unique_ptr<Round>> rounds;
  for (std::uint32_t i = 0; i < 24; ++i) {
    const Codec codec = i % 2 == 0 ? Codec::kInt8 : Codec::kNone;
    rounds.push_back(
        std::make_unique<Round>(ranks, RoundOptions{.reduction = {.codec = codec},
                                                    .count = 100'000 + i,
                                                    .number = i,
                                                    .memory = i % 3 == 0 ? Memory::kBuffer : Memory::kDevice,
                                                    .channel = i % 5}));
    rounds.back()->Submit();
  }
  for (const auto& round : rounds) round->Check();
}

// The peer's daemon is killed while all inputs are half copied.
TEST_F(Device, LossOfAPeerInTheMiddleIsRetriedWithTheSameInputs) {
  Cluster cluster({.daemons = 3});
  const Sessions ranks = cluster.JoinWorld(3);
  ASSERT_EQ(ranks.size(), 3U);
  TestDevice::Get().SetFaults({.hang_one_in = 2, .seed = 3});
  Round round(First(ranks, 2), {.reduction = {}, .count = kLarge, .memory = Memory::kDevice});
  round.Submit();
  cluster.daemon(2).Kill();
  TestDevice::Get().Reset();
  EXPECT_EQ(round.Check().world_size, 2U);
}

TEST_F(Device, DeviceThatFailsCostsTheOperationAndNothingElse) {
  Cluster cluster({.daemons = 3});
  const Sessions ranks = cluster.JoinWorld(3);
  ASSERT_EQ(ranks.size(), 3U);
  Round host(Others(ranks), {.reduction = {}, .count = kLarge});
  Round broken(First(ranks, 1), {.reduction = {}, .count = kLarge, .memory = Memory::kDevice});
  TestDevice::Get().Lose();
  broken.Submit();
  host.Submit();
  const std::string why = broken.CheckFailure(Code::kDeviceFailed);
  EXPECT_NE(why.find("lost"), std::string::npos) << why;
  host.CheckFailure(Code::kCancelled);
  Round next(ranks, {.reduction = {}, .count = kLarge, .number = 1});
  next.Submit();
  EXPECT_EQ(next.Check().world_size, 3U);
  TestDevice::Get().Reset();
  Round again(ranks, {.reduction = {}, .count = kLarge, .number = 2, .memory = Memory::kDevice});
  again.Submit();
  EXPECT_EQ(again.Check().world_size, 3U);
}

// It is a hung trainer to the others, who go on without it.
TEST_F(Device, DeviceThatHangsIsEvicted) {
  Cluster cluster({.daemons = 3});
  std::vector<JoinOptions> options;
  for (std::size_t i = 0; i < 3; ++i) {
    options.push_back(cluster.At(i, "job", 3));
    options.back().evict_hung_after = std::chrono::seconds(3);
    options.back().rejoin_when_evicted = false;
  }
  const Sessions ranks = cluster.JoinAll(options);
  ASSERT_EQ(ranks.size(), 3U);
  TestDevice::Get().SetFaults({.hang_one_in = 1});
  Round hung(First(ranks, 1), {.reduction = {}, .count = kLarge, .memory = Memory::kDevice});
  Round others(Others(ranks), {.reduction = {}, .count = kLarge});
  hung.Submit();
  others.Submit();
  EXPECT_EQ(others.Check().world_size, 2U);
  hung.CheckFailure(Code::kEvicted);
  TestDevice::Get().Reset();
}

// Two threads a rank, each with a channel and a stream of its own: the ranks submit the channels in any order, and
// every second input waits for the result before it.
TEST_F(Device, ChannelsInDifferentOrdersDoNotBlockEachOthersCopies) {
  constexpr std::size_t kCount = 1000;
  constexpr int kRounds = 20;
  Cluster cluster({.daemons = 2});
  const Sessions ranks = cluster.JoinWorld(2);
  ASSERT_EQ(ranks.size(), 2U);
  const auto run = [&ranks](std::size_t rank, std::uint32_t channel) {
    TestStream stream;
    void* memory = nullptr;
    EXPECT_TRUE(TestDevice::Get().Allocate(0, kCount * sizeof(float), &memory).ok());
    auto* const values = reinterpret_cast<float*>(TestDevice::Get().Contents(memory));
    std::fill_n(values, kCount, 1.0F);
    OpOptions options{.channel = channel};
    options.stream = stream.handle();
    for (int round = 0; round < kRounds; ++round) {
      auto work = ranks[rank]->AllReduceAsync(memory, memory, kCount, DType::kF32, ReduceOp::kSum, options);
      ASSERT_TRUE(work.ok()) << work.status().text();
      ASSERT_TRUE(work->WaitOnStream(stream.handle()).ok());
    }
    stream.Synchronize();
    EXPECT_EQ(values[kCount - 1], std::ldexp(1.0F, kRounds));
    TestDevice::Get().Free(memory);
  };
  std::vector<std::jthread> threads;
  for (std::size_t i = 0; i < 4; ++i) threads.emplace_back(run, i / 2, (i + i / 2) % 2);
}

// A rank that only gives has an input, which it may write to once its stream has waited.
TEST_F(Device, StreamOfASenderWaitsForItsInput) {
  constexpr std::size_t kCount = 1000;
  Cluster cluster({.daemons = 2});
  const Sessions ranks = cluster.JoinWorld(2);
  ASSERT_EQ(ranks.size(), 2U);
  TestStream stream;
  void* memory = nullptr;
  ASSERT_TRUE(TestDevice::Get().Allocate(0, kCount * sizeof(float), &memory).ok());
  auto* const values = reinterpret_cast<float*>(TestDevice::Get().Contents(memory));
  std::fill_n(values, kCount, 1.0F);
  std::promise<void> go;
  stream.Enqueue([gone = go.get_future().share()] { gone.wait(); });
  OpOptions options;
  options.stream = stream.handle();
  auto work = ranks[0]->SendAsync(memory, kCount, DType::kF32, ranks[1]->rank(), 0, options);
  ASSERT_TRUE(work.ok()) << work.status().text();
  EXPECT_EQ(work->WaitOnStream(stream.handle(), Milliseconds(1)).code(), Code::kTimeout);
  go.set_value();
  EXPECT_TRUE(work->WaitOnStream(stream.handle()).ok());
  std::fill_n(values, kCount, 2.0F);
  std::vector<float> received(kCount);
  EXPECT_TRUE(ranks[1]->Recv(received.data(), kCount, DType::kF32, ranks[0]->rank()).ok());
  EXPECT_EQ(received, std::vector<float>(kCount, 1.0F));
  EXPECT_TRUE(work->Wait().ok());
  TestDevice::Get().Free(memory);
}

// Gradients of one step depend on the result of the step before, on the device; the host only submits.
TEST_F(Device, StepsFollowEachOtherOnStreamsWithoutTheHost) {
  constexpr int kSteps = 10;
  constexpr std::size_t kCount = 50'000;
  Cluster cluster({.daemons = 2});
  const Sessions ranks = cluster.JoinWorld(2);
  ASSERT_EQ(ranks.size(), 2U);
  std::vector<std::unique_ptr<TestStream>> streams;
  std::vector<void*> memories(2);
  std::vector<std::vector<Work>> works(2);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    streams.push_back(std::make_unique<TestStream>());
    ASSERT_TRUE(TestDevice::Get().Allocate(0, kCount * sizeof(float), &memories[rank]).ok());
    auto* const values = reinterpret_cast<float*>(TestDevice::Get().Contents(memories[rank]));
    std::fill_n(values, kCount, static_cast<float>(rank));
  }
  for (int step = 0; step < kSteps; ++step) {
    for (std::size_t rank = 0; rank < 2; ++rank) {
      OpOptions options;
      options.stream = streams[rank]->handle();
      auto work =
          ranks[rank]->AllReduceAsync(memories[rank], memories[rank], kCount, DType::kF32, ReduceOp::kAvg, options);
      ASSERT_TRUE(work.ok()) << work.status().text();
      ASSERT_TRUE(work->WaitOnStream(streams[rank]->handle()).ok());
      works[rank].push_back(std::move(*work));
      streams[rank]->Enqueue([memory = memories[rank], rank] {
        auto* const values = reinterpret_cast<float*>(TestDevice::Get().Contents(memory));
        for (std::size_t i = 0; i < kCount; ++i) values[i] += static_cast<float>(2 * rank);
      });
    }
  }
  for (std::size_t rank = 0; rank < 2; ++rank) {
    streams[rank]->Synchronize();
    for (Work& work : works[rank]) EXPECT_TRUE(work.Wait().ok());
    const auto* const values = reinterpret_cast<const float*>(TestDevice::Get().Contents(memories[rank]));
    // Averaged: 0.5, and 1 more after each step but the last, to which each adds its own.
    const float expected = 0.5F + static_cast<float>(kSteps - 1) + static_cast<float>(2 * rank);
    EXPECT_EQ(values[0], expected);
    EXPECT_EQ(values[kCount - 1], expected);
    TestDevice::Get().Free(memories[rank]);
  }
}

}  // namespace
}  // namespace ringway::e2e
