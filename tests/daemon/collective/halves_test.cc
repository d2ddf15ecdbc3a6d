// The halves of an all-reduce, by real schedules and executors.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <tuple>
#include <vector>

#include "daemon/kernels/codec.h"
#include "tests/daemon/collective/world.h"

namespace ringway::collective {
namespace {

constexpr std::uint64_t kHalfSegment = 4096;

std::vector<std::vector<std::byte>> WholeInputs(std::uint32_t world, std::uint64_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::vector<std::byte>> inputs;
  for (std::uint32_t rank = 0; rank < world; ++rank) {
    std::vector<float> values(count);
    for (float& value : values) value = static_cast<float>(static_cast<int>(random() % 201) - 100);
    inputs.push_back(Bytes(values));
  }
  return inputs;
}

class Halves : public testing::TestWithParam<Algorithm> {
 protected:
  static Descriptor Of(OpKind kind, std::uint64_t count, Codec codec = Codec::kNone) {
    return {kind, DType::kF32, ReduceOp::kSum, codec, GetParam(), count};
  }
};

INSTANTIATE_TEST_SUITE_P(Algorithms, Halves, testing::Values(Algorithm::kRing, Algorithm::kDirect),
                         [](const auto& param_info) { return NameOf(param_info.param); });

TEST_P(Halves, AllGatherHasEveryInputInRankOrderOnEveryRank) {
  for (std::uint32_t world_size = 1; world_size <= 64; world_size += world_size < 9 ? 1 : 11) {
    for (const std::uint64_t count : {0, 1, 257, 3001}) {
      const auto inputs = WholeInputs(world_size, count, world_size);
      std::vector<std::byte> expected;
      for (const auto& input : inputs) expected.insert(expected.end(), input.begin(), input.end());
      for (const bool staged : {false, true}) {
        World world(Of(OpKind::kAllGather, count), inputs, kHalfSegment, staged);
        for (std::uint32_t rank = 0; staged && rank < world_size; ++rank) world.Stage(rank, inputs[rank].size());
        world.Run(world_size * 1000 + count);
        for (std::uint32_t rank = 0; rank < world_size; ++rank) {
          ASSERT_TRUE(world.executor(rank).complete()) << world_size << ' ' << count;
          ASSERT_EQ(world.output(rank), expected);
          ASSERT_EQ(world.input(rank), inputs[rank]);
        }
      }
    }
  }
}

TEST_P(Halves, ReduceScatterHasEachRanksPartOfTheExactSum) {
  for (std::uint32_t world_size = 1; world_size <= 64; world_size += world_size < 9 ? 1 : 11) {
    for (const std::uint64_t count : {0, 1, 63, 257, 5003}) {
      const auto inputs = WholeInputs(world_size, count, world_size);
      std::vector<float> sum(count, 0.0f);
      for (const auto& input : inputs) {
        const auto values = Values<float>(input);
        for (std::uint64_t i = 0; i < count; ++i) sum[i] += values[i];  // exact: small integers
      }
      World world(Of(OpKind::kReduceScatter, count), inputs, kHalfSegment);
      world.Run(world_size * 1000 + count);
      std::uint64_t covered = 0;
      for (std::uint32_t rank = 0; rank < world_size; ++rank) {
        ASSERT_TRUE(world.executor(rank).complete()) << world_size << ' ' << count;
        const Part part = PartOf(count, world_size, rank);
        ASSERT_EQ(part.begin, covered);
        covered += part.count;
        const auto values = Values<float>(world.output(rank));
        for (std::uint64_t i = part.begin; i < part.begin + part.count; ++i) ASSERT_EQ(values[i], sum[i]) << i;
      }
      ASSERT_EQ(covered, count);
    }
  }
}

// Each value is encoded once, by its owner, who goes on with what the others decode; so does who fetches the result.
TEST_P(Halves, AllGatherWithACodecGivesAllRanksAndAFetchTheSameBytes) {
  constexpr std::uint32_t kWorld = 3;
  for (const CodecInfo& codec : kCodecs) {
    const Descriptor descriptor = Of(OpKind::kAllGather, 1001, codec.codec);
    World world(descriptor, WholeInputs(kWorld, descriptor.count, 5), kHalfSegment);
    world.Run(9);
    for (std::uint32_t rank = 1; rank < kWorld; ++rank) ASSERT_EQ(world.output(rank), world.output(0)) << codec.name;
    std::vector<std::byte> held = world.output(0);
    std::vector<std::byte> fetched(held.size());
    ExecutorOptions options{
        .descriptor = descriptor,
        .shape = {.count = kWorld * descriptor.count, .input = {}, .output = {0, kWorld * descriptor.count}},
        .world_size = 2,
        .segment_bytes_max = kHalfSegment,
        .output = held.data(),
        .stamp = {}};
    Executor holder(Share(FetchSchedule(Rank(0), Rank(1), Rank(0), kWorld)), options);
    options.output = fetched.data();
    Executor fetcher(Share(FetchSchedule(Rank(0), Rank(1), Rank(1), kWorld)), options);
    std::vector<std::byte> scratch(kPayloadBytesMax);
    while (const auto ready = holder.PopReady(Rank(1), kPayloadBytesMax)) {
      const auto encoded = holder.Encode(*ready, scratch);
      const auto claim = fetcher.Take(encoded.header, Rank(0));
      ASSERT_TRUE(claim.ok());
      if (claim.value().direct != nullptr)
        std::memcpy(claim.value().direct, encoded.payload.data(), encoded.payload.size());
      fetcher.Accept(claim.value(), encoded.header, encoded.payload);
    }
    ASSERT_TRUE(fetcher.complete());
    EXPECT_EQ(fetched, world.output(0)) << codec.name;
  }
}

// A rank that asks for what was never sent would get memory that was never written.
TEST_P(Halves, WhatWasNeverReadyIsNotSentAgain) {
  for (const OpKind kind : {OpKind::kAllReduce, OpKind::kAllGather, OpKind::kReduceScatter}) {
    World world(Of(kind, 3001), WholeInputs(3, 3001, 7), kHalfSegment, true);
    for (std::uint32_t to = 0; to < 3; ++to) {
      for (std::uint16_t step = 0; step < 8; ++step) {
        for (std::uint16_t chunk = 0; chunk < 3; ++chunk) world.executor(1).Resend(Rank(to), step, chunk, 0);
      }
      EXPECT_FALSE(world.executor(1).NextBytes(Rank(to)).has_value()) << NameOf(kind);
    }
  }
}

TEST_P(Halves, SendHalfOfWhatAnAllReduceDoes) {
  for (const std::uint32_t world_size : {2u, 3u, 8u, 64u}) {
    Routes routes;
    for (std::uint32_t rank = 0; rank < world_size; ++rank) routes.ring.emplace_back((rank * 7 + 3) % world_size);
    if (world_size % 7 == 0) continue;
    for (std::uint32_t rank = 0; rank < world_size; ++rank) {
      const auto departures = [&](OpKind kind) {
        return MakeSchedule(kind, GetParam(), routes, Rank(rank)).departures.size();
      };
      EXPECT_EQ(departures(OpKind::kAllGather), world_size - 1);
      EXPECT_EQ(departures(OpKind::kReduceScatter), world_size - 1);
      EXPECT_EQ(departures(OpKind::kAllReduce), 2 * (world_size - 1));
    }
  }
}

TEST(PartOf, CoversEveryElementOnceAndNeverOverflows) {
  constexpr std::size_t kHuge = ~std::size_t{0} / 64;
  for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{63}, std::size_t{64}, kHuge}) {
    for (std::uint32_t world_size = 1; world_size <= 64; ++world_size) {
      std::size_t next = 0;
      for (std::uint32_t rank = 0; rank < world_size; ++rank) {
        const Part part = PartOf(count, world_size, rank);
        ASSERT_EQ(part.begin, next);
        next += part.count;
      }
      ASSERT_EQ(next, count);
    }
  }
}

}  // namespace
}  // namespace ringway::collective
