#include "daemon/collective/executor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "proto/collective/shares.h"
#include "tests/daemon/collective/world.h"
#include "tests/daemon/kernels/lossy_codecs.h"
#include "tests/sanitized.h"

namespace ringway::collective {
namespace {

constexpr std::uint64_t kSegment = 4096;

Descriptor SumOf(DType dtype, std::uint64_t count, Codec codec = Codec::kNone, Algorithm algorithm = Algorithm::kRing) {
  return {OpKind::kAllReduce, dtype, ReduceOp::kSum, codec, algorithm, count};
}

template <typename T>
std::vector<std::vector<std::byte>> Inputs(std::uint32_t world, std::uint64_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::vector<std::byte>> inputs;
  for (std::uint32_t rank = 0; rank < world; ++rank) {
    std::vector<T> values(count);
    for (T& value : values) value = static_cast<T>(static_cast<int>(random() % 2001) - 1000) / static_cast<T>(8);
    inputs.push_back(Bytes(values));
  }
  return inputs;
}

void ExpectAllEqual(const World& world) {
  for (std::uint32_t rank = 1; rank < world.world(); ++rank) ASSERT_EQ(world.output(rank), world.output(0));
}

// The worked example with its four numbers in four chunks (a chunk is at least one grid block).
TEST(Executor, WorkedExampleGivesTheSumOnEveryRank) {
  const std::vector<std::vector<int>> rows = {{15, 12, 9, 6}, {2, 8, 6, 4}, {1, 3, 4, 2}, {12, 6, 3, 15}};
  std::vector<std::vector<std::byte>> inputs;
  for (const auto& row : rows) {
    std::vector<float> values;
    for (const int value : row) values.insert(values.end(), kGridElements, static_cast<float>(value));
    inputs.push_back(Bytes(values));
  }
  World world(SumOf(DType::kF32, 4 * kGridElements), inputs, kSegment);
  world.Run(1);
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    const auto values = Values<float>(world.output(rank));
    for (std::uint32_t chunk = 0; chunk < 4; ++chunk) {
      const float expected[] = {30, 29, 22, 27};
      EXPECT_EQ(values[chunk * kGridElements], expected[chunk]);
      EXPECT_EQ(values[(chunk + 1) * kGridElements - 1], expected[chunk]);
    }
  }
}

TEST(Executor, SecondWorkedExample) {
  std::vector<std::vector<std::byte>> inputs;
  for (int rank = 0; rank < 4; ++rank)
    inputs.push_back(Bytes(std::vector<std::int32_t>{rank, rank + 1, rank + 2, rank + 3}));
  World world(SumOf(DType::kI32, 4), inputs, kSegment);
  world.Run(2);
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(Values<std::int32_t>(world.output(rank)), (std::vector<std::int32_t>{6, 10, 14, 18}));
  }
}

class EveryAlgorithm : public testing::TestWithParam<Algorithm> {};

std::vector<Algorithm> AllAlgorithms() {
  std::vector<Algorithm> all;
  for (std::uint8_t i = 0; i < kAlgorithmCount; ++i) all.push_back(static_cast<Algorithm>(i));
  return all;
}

INSTANTIATE_TEST_SUITE_P(Algorithms, EveryAlgorithm, testing::ValuesIn(AllAlgorithms()),
                         [](const auto& param_info) { return NameOf(param_info.param); });

TEST_P(EveryAlgorithm, WorldsTo64WithAwkwardCountsAndAnyArrivalOrderGiveTheExactSum) {
  for (std::uint32_t world_size = 1; world_size <= 64; ++world_size) {
    const bool at_an_end = world_size <= (kSanitized ? 6 : 12) || world_size >= (kSanitized ? 64 : 62);
    if (kSanitized && !at_an_end && world_size % 16 != 9) continue;
    for (const std::uint64_t count : {0, 1, 257, at_an_end ? 5003 : 513}) {
      auto inputs = Inputs<double>(world_size, count, world_size);
      std::vector<double> expected(count, 0.0);
      for (const auto& input : inputs) {
        const auto values = Values<double>(input);
        for (std::uint64_t i = 0; i < count; ++i) expected[i] += values[i];  // exact: eighths of small integers
      }
      World world(SumOf(DType::kF64, count, Codec::kNone, GetParam()), inputs, kSegment);
      world.Run(world_size * 1000 + count);
      for (std::uint32_t rank = 0; rank < world_size; ++rank) {
        ASSERT_TRUE(world.executor(rank).complete()) << "world " << world_size << " count " << count;
        ASSERT_EQ(Values<double>(world.output(rank)), expected);
        ASSERT_EQ(world.input(rank), inputs[rank]);
      }
    }
  }
}

// Some owning nothing, some much: kWholeShare in all, none over ShareMax.
std::vector<std::uint32_t> RandomShares(std::uint32_t world, std::mt19937_64& random) {
  std::vector<std::uint32_t> shares(world);
  for (std::uint32_t left = kWholeShare; left > 0;) {
    std::uint32_t& share = shares[random() % world];
    const std::uint32_t more = std::min({left, ShareMax(world) - share, 1 + kWholeShare / world});
    share += more;
    left -= more;
  }
  return shares;
}

TEST(Executor, UnequalSharesGiveTheExactSumInWorldsTo64) {
  std::mt19937_64 random(7);
  for (std::uint32_t world_size = 2; world_size <= 64; world_size += kSanitized ? 9 : 1) {
    for (const std::uint64_t count : {0, 1, 5003, 40'000}) {
      if (world_size > 12 && count > 10'000) continue;
      auto inputs = Inputs<double>(world_size, count, world_size);
      std::vector<double> expected(count, 0.0);
      for (const auto& input : inputs) {
        const auto values = Values<double>(input);
        for (std::uint64_t i = 0; i < count; ++i) expected[i] += values[i];
      }
      const Descriptor descriptor = SumOf(DType::kF64, count, Codec::kNone, Algorithm::kDirect);
      World world(descriptor, inputs, kSegment, random() % 2 == 0, RandomShares(world_size, random));
      for (std::uint32_t rank = 0; rank < world_size; ++rank) world.Stage(rank, inputs[rank].size());
      world.Run(random());
      for (std::uint32_t rank = 0; rank < world_size; ++rank) {
        ASSERT_TRUE(world.executor(rank).complete()) << "world " << world_size << " count " << count;
        ASSERT_EQ(Values<double>(world.output(rank)), expected) << "world " << world_size << " count " << count;
      }
    }
  }
}

// Sums of floats differ with the order of the addends, so this sees a wrong order.
TEST_P(EveryAlgorithm, ResultDependsOnNothingThatHappensOnTheWay) {
  for (const CodecInfo& codec : kCodecs) {
    for (const std::uint32_t world_size : {2u, 3u, 5u, 8u}) {
      auto inputs = Inputs<float>(world_size, 9001, 21);
      for (auto& input : inputs) {
        auto values = Values<float>(input);
        for (float& value : values) value = std::sin(value) * std::exp2(std::fmod(value, 12.0F));
        input = Bytes(values);
      }
      const Descriptor descriptor = SumOf(DType::kF32, 9001, codec.codec, GetParam());
      std::vector<std::byte> first;
      for (std::uint64_t seed = 0; seed < 8; ++seed) {
        World world(descriptor, inputs, kSegment, /*staged=*/seed % 2 == 1);
        for (std::uint32_t rank = 0; rank < world_size; ++rank) {
          if (seed == 3) world.Run(seed);  // what others send before the own input is there
          world.Stage(rank, inputs[rank].size());
        }
        world.Run(seed);
        ExpectAllEqual(world);
        if (first.empty()) first = world.output(0);
        ASSERT_EQ(world.output(0), first) << codec.name << " world " << world_size << " seed " << seed;
      }
    }
  }
}

TEST_P(EveryAlgorithm, StampIsTheMinimumOfAllContributorsOnEveryRank) {
  for (const std::uint64_t count : {0ull, 3000ull}) {
    World world(SumOf(DType::kF64, count, Codec::kNone, GetParam()), Inputs<double>(5, count, 3), kSegment);
    world.Run(4);
    for (std::uint32_t rank = 0; rank < 5; ++rank) {
      EXPECT_EQ(world.executor(rank).stamp().prepared, Epoch(10));
      EXPECT_EQ(world.executor(rank).stamp().acknowledged, 96u);
    }
  }
}

class LossyCodec : public testing::TestWithParam<Codec> {};

TEST_P(LossyCodec, AllRanksEndWithTheSameBytesNearTheSum) {
  for (const std::uint32_t world_size : {2u, 3u, 8u, 17u}) {
    const std::uint64_t count = 7001;
    auto inputs = Inputs<float>(world_size, count, 5);
    World world(SumOf(DType::kF32, count, GetParam()), inputs, kSegment);
    world.Run(6);
    ExpectAllEqual(world);
    std::vector<double> expected(count, 0.0);
    for (const auto& input : inputs) {
      const auto values = Values<float>(input);
      for (std::uint64_t i = 0; i < count; ++i) expected[i] += values[i];
    }
    const auto got = Values<float>(world.output(0));
    // world_size roundings of values up to 125 * world_size.
    const double bound = 125.0 * world_size * world_size * InfoOf(GetParam()).error.relative_max;
    for (std::uint64_t i = 0; i < count; ++i) ASSERT_NEAR(got[i], expected[i], bound);
    // The result is its own code: nobody keeps a precision that the others do not have.
    std::vector<float> again = got;
    kernels::Requantize(GetParam(), DType::kF32, again.data(), count);
    ASSERT_EQ(Bytes(again), world.output(0));
  }
}

// The mistake that the codecs' rules exist for: an owner that goes on with its own sum instead of what the others
// decode.
TEST_P(LossyCodec, OwnerThatKeepsItsLocalPrecisionIsFoundByTheSameProperty) {
  const std::uint32_t world_size = 4;
  const std::uint64_t count = 4 * kGridElements;
  World world(SumOf(DType::kF32, count, GetParam()), Inputs<float>(world_size, count, 12), kSegment);
  std::vector<std::vector<float>> unrounded(world_size);  // of the chunk that each rank owns
  world.RunObserved(13, [&](const World::Frame& frame) {
    if (frame.header.step != world_size - 2) return;
    const Range range = world.executor(frame.to.value).grid().Chunk(frame.header.chunk);
    std::vector<float> sum(range.count);
    const auto input = Values<float>(world.input(frame.to.value));
    kernels::DecodeReduce(GetParam(), DType::kF32, ReduceOp::kSum, sum.data(), input.data() + range.begin,
                          frame.payload.data(), range.count);
    unrounded[frame.to.value] = sum;
  });
  ExpectAllEqual(world);
  bool differs = false;
  for (std::uint32_t rank = 0; rank < world_size; ++rank) {
    const Range range = world.executor(rank).grid().Chunk((rank + 1) % world_size);
    auto mutant = Values<float>(world.output(rank));
    std::copy(unrounded[rank].begin(), unrounded[rank].end(),
              mutant.begin() + static_cast<std::ptrdiff_t>(range.begin));
    differs = differs || Bytes(mutant) != world.output((rank + 1) % world_size);
  }
  EXPECT_TRUE(differs) << "the property would not notice";
}

INSTANTIATE_TEST_SUITE_P(Codecs, LossyCodec, testing::ValuesIn(kernels::LossyCodecs()),
                         [](const testing::TestParamInfo<Codec>& test) { return std::string(NameOf(test.param)); });

TEST(Executor, AvgDividesByTheContributors) {
  Descriptor descriptor = SumOf(DType::kF32, 300);
  descriptor.op = ReduceOp::kAvg;
  std::vector<std::vector<std::byte>> inputs;
  for (int rank = 0; rank < 4; ++rank) inputs.push_back(Bytes(std::vector<float>(300, static_cast<float>(rank))));
  World world(descriptor, inputs, kSegment);
  world.Run(7);
  for (const float value : Values<float>(world.output(3))) ASSERT_EQ(value, 1.5f);
}

TEST(Executor, StagedInputsMayCompleteInAnyOrderBesideTheArrivals) {
  const std::uint64_t count = 20000;
  auto inputs = Inputs<double>(3, count, 8);
  World whole(SumOf(DType::kF64, count), inputs, kSegment);
  whole.Run(9);
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    World staged(SumOf(DType::kF64, count), inputs, kSegment, /*staged=*/true);
    std::mt19937_64 random(seed);
    std::vector<std::uint64_t> ready(3, 0);
    const std::uint64_t bytes = count * 8;
    while (std::any_of(ready.begin(), ready.end(), [&](std::uint64_t r) { return r < bytes; })) {
      const auto rank = static_cast<std::uint32_t>(random() % 3);
      ready[rank] = std::min(bytes, ready[rank] + random() % 40000);
      staged.Stage(rank, ready[rank]);
      staged.Send();
      if (staged.wire().empty()) continue;
      const auto frame = staged.wire().back();
      staged.wire().pop_back();
      staged.Deliver(frame);
    }
    staged.Run(seed);
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
      ASSERT_TRUE(staged.executor(rank).complete());
      ASSERT_EQ(staged.output(rank), whole.output(rank));
    }
  }
}

// Frames overtake each other as before; now most of those that come before their turn find no room.
TEST_P(EveryAlgorithm, WithoutRoomSegmentsAreAskedForAgainAndTheResultIsTheSame) {
  constexpr std::uint64_t kRoom = 3 * kSegment;
  std::uint64_t asked_again = 0;
  for (const std::uint32_t world_size : {2u, 3u, 5u, 8u}) {
    for (std::uint64_t seed = 0; seed < 8; ++seed) {
      const auto inputs = Inputs<double>(world_size, 20'000, seed);
      const Descriptor descriptor = SumOf(DType::kF64, 20'000, Codec::kNone, GetParam());
      World roomy(descriptor, inputs, kSegment);
      roomy.Run(seed);
      const auto budget = std::make_shared<MemoryBudget>(4 * kRoom);
      MemoryShare memory(budget);
      World tight(descriptor, inputs, kSegment, /*staged=*/seed % 2 == 1, {}, &memory);
      if (seed % 2 == 1) tight.Run(seed);  // all that others send before the own input is there
      for (std::uint32_t rank = 0; rank < world_size; ++rank) tight.Stage(rank, inputs[rank].size());
      tight.RunObserved(seed, [&](const World::Frame&) { ASSERT_LE(budget->used(), kRoom); });
      for (std::uint32_t rank = 0; rank < world_size; ++rank) {
        ASSERT_TRUE(tight.executor(rank).complete()) << "world " << world_size << " seed " << seed;
        ASSERT_EQ(tight.output(rank), roomy.output(rank)) << "world " << world_size << " seed " << seed;
      }
      EXPECT_EQ(budget->used(), 0u) << "all that was put aside is in a sum";
      asked_again += tight.asked_again();
    }
  }
  const bool sums_many = GetParam() == Algorithm::kDirect || GetParam() == Algorithm::kOneShot;
  EXPECT_GE(asked_again, sums_many ? 100u : 0u);
}

TEST(Executor, WhatIsPutAsideGivesItsRoomBackWithTheExecutor) {
  const auto budget = std::make_shared<MemoryBudget>(1 << 20);
  MemoryShare memory(budget);
  {
    World world(SumOf(DType::kF64, 5000, Codec::kNone, Algorithm::kDirect), Inputs<double>(5, 5000, 1), kSegment, false,
                {}, &memory);
    world.Send();
    while (!world.wire().empty()) {  // the last come first
      const auto frame = world.wire().back();
      world.wire().pop_back();
      world.Deliver(frame);
      if (budget->used() > 0) break;
    }
    EXPECT_GT(budget->used(), 0u);
  }
  EXPECT_EQ(budget->used(), 0u);
}

TEST(Executor, AskingAgainForWhatThereIsNotChangesNothing) {
  World world(SumOf(DType::kF64, 5000), Inputs<double>(3, 5000, 10), kSegment);
  Executor& executor = world.executor(0);
  world.Send();
  executor.Resend(Rank(1), 60000, 0, 0);
  executor.Resend(Rank(1), 0, 0, 1 << 20);
  executor.Resend(Rank(2), 0, 0, 0);
  EXPECT_FALSE(executor.NextBytes(Rank(1)).has_value());
  EXPECT_FALSE(executor.NextBytes(Rank(2)).has_value());
  for (int i = 0; i < 100'000; ++i) executor.Resend(Rank(1), 0, 0, 0);
  int queued = 0;
  while (executor.PopReady(Rank(1), kPayloadBytesMax)) ++queued;
  EXPECT_LE(queued, 100) << "nobody makes a queue grow without bound";
}

TEST(Executor, LongCopyAloneIsDoneInSlices) {
  const auto inputs = Inputs<double>(1, 10'000, 3);
  std::vector<std::byte> output(inputs[0].size());
  const Descriptor descriptor = SumOf(DType::kF64, 10'000);
  Executor executor(Share(MakeSchedule(OpKind::kAllReduce, Algorithm::kRing, {.ring = {Rank(0)}}, Rank(0))),
                    {.descriptor = descriptor,
                     .shape = ShapeOf(descriptor, 1, Rank(0)),
                     .world_size = 1,
                     .segment_bytes_max = kSegment,
                     .input = inputs[0].data(),
                     .output = output.data(),
                     .input_bytes_ready = 30'000,
                     .stamp = {}});
  EXPECT_EQ(executor.Work(20'000), 20'000u);
  EXPECT_EQ(executor.Work(20'000), 10'000u) << "no further than the input is there";
  EXPECT_FALSE(executor.has_work());
  EXPECT_FALSE(executor.complete());
  executor.InputReady(80'000);
  EXPECT_FALSE(executor.complete());
  EXPECT_EQ(executor.Work(~std::uint64_t{0}), 50'000u);
  EXPECT_TRUE(executor.complete());
  EXPECT_EQ(output, inputs[0]);
}

TEST(ExecutorDeathTest, AnInputThatLacksWhatIsSentOfItIsNotWaitedFor) {
  const Descriptor descriptor = SumOf(DType::kU8, 1000);
  const Routes routes{.ring = {Rank(0), Rank(1)}};
  const auto schedule = Share(MakeSchedule(descriptor.kind, descriptor.schedule, routes, Rank(1)));
  std::vector<std::byte> output(1000);
  ExecutorOptions options{.descriptor = descriptor,
                          .shape = ShapeOf(descriptor, 2, Rank(1)),
                          .world_size = 2,
                          .output = output.data(),
                          .stamp = {}};
  const Executor whole(schedule, options);
  options.shape.input.count = 255;
  EXPECT_DEATH(Executor(schedule, options), "invariant");
}

TEST(Executor, HostilePositionsAreRefusedAndChangeNothing) {
  World world(SumOf(DType::kF64, 5000), Inputs<double>(3, 5000, 10), kSegment);
  world.Send();
  const auto frame = world.wire().front();
  Executor& executor = world.executor(frame.to.value);
  auto expect_refused = [&](SegmentHeader header, Rank from) {
    const auto claim = executor.Take(header, from);
    ASSERT_FALSE(claim.ok());
    EXPECT_EQ(claim.status().code(), Code::kProtocol);
  };
  SegmentHeader header = frame.header;
  header.segment = 1 << 20;
  expect_refused(header, frame.from);
  header = frame.header;
  header.step = 60000;
  expect_refused(header, frame.from);
  header = frame.header;
  header.payload_bytes -= 8;
  expect_refused(header, frame.from);
  expect_refused(frame.header, frame.to);
  EXPECT_TRUE(executor.Take(frame.header, frame.from).ok());
}

TEST(Executor, ReleasedPositionIsTakenAgainAndClaimedOneIsNot) {
  World world(SumOf(DType::kF64, 5000), Inputs<double>(2, 5000, 11), kSegment);
  world.Send();
  const auto frame = world.wire().front();
  Executor& executor = world.executor(frame.to.value);
  const auto first = executor.Take(frame.header, frame.from);
  EXPECT_TRUE(executor.Take(frame.header, frame.from).value().skipped);
  executor.Release(first.value());
  EXPECT_FALSE(executor.Take(frame.header, frame.from).value().skipped);
}

// A partial sum lies where the finished value goes: as soon as that comes, the other end has used it.
TEST(Executor, APartialSumIsConsumedWhenItsFinishedValueComes) {
  World world(SumOf(DType::kF64, 600), Inputs<double>(3, 600, 12), kSegment);
  Executor& executor = world.executor(1);
  const auto pop = [&] { return executor.PopReady(Rank(2), kPayloadBytesMax); };
  std::vector<std::byte> scratch(kPayloadBytesMax);
  std::optional<Ready> partial;  // of the first segment
  world.Send();
  while (!world.wire().empty()) {
    const World::Frame frame = world.wire().front();
    world.wire().erase(world.wire().begin());
    if (partial && frame.to == Rank(1) && frame.header.chunk == 0 && frame.header.segment == 0) {
      EXPECT_FALSE(executor.IsConsumed(*partial)) << "nothing has come yet";
      executor.Requeue(*partial);
      EXPECT_TRUE(pop().has_value());
      ASSERT_TRUE(executor.Take(frame.header, frame.from).ok());
      EXPECT_TRUE(executor.IsConsumed(*partial));
      executor.Requeue(*partial);
      EXPECT_FALSE(pop().has_value());
      return;
    }
    world.Deliver(frame);
    if (frame.to != Rank(1)) {
      world.SendFrom(frame.to.value);
      continue;
    }
    while (const auto ready = pop()) {
      if (executor.RangeOf(*ready).begin == 0) partial = ready;
      const Executor::Encoded encoded = executor.Encode(*ready, scratch);
      world.wire().push_back({Rank(1), Rank(2), encoded.header, {encoded.payload.begin(), encoded.payload.end()}});
    }
  }
  FAIL() << "no finished value came";
}

TEST(Executor, HolderServesAFetchOfItsWholeResult) {
  std::vector<float> result(3001);
  std::iota(result.begin(), result.end(), 1.0f);
  std::vector<float> lacking(result.size(), 0.0f);
  auto* source = reinterpret_cast<std::byte*>(result.data());
  const Descriptor descriptor = SumOf(DType::kF32, result.size());
  ExecutorOptions options{.descriptor = descriptor,
                          .shape = {.count = result.size(), .input = {}, .output = {0, result.size()}},
                          .world_size = 2,
                          .segment_bytes_max = kSegment,
                          .output = source,
                          .stamp = {}};
  Executor holder(Share(FetchSchedule(Rank(1), Rank(0), Rank(1))), options);
  options.output = reinterpret_cast<std::byte*>(lacking.data());
  Executor fetcher(Share(FetchSchedule(Rank(1), Rank(0), Rank(0))), options);
  while (auto ready = holder.PopReady(Rank(0), kPayloadBytesMax)) {
    const auto encoded = holder.Encode(*ready, {});
    const auto claim = fetcher.Take(encoded.header, Rank(1));
    ASSERT_TRUE(claim.ok());
    std::memcpy(claim.value().direct, encoded.payload.data(), encoded.payload.size());
    fetcher.Accept(claim.value(), encoded.header, encoded.payload);
  }
  EXPECT_TRUE(fetcher.complete());
  EXPECT_EQ(lacking, result);
}

}  // namespace
}  // namespace ringway::collective
