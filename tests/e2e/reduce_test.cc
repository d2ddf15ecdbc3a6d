// Healthy groups compute every type, every size, every kind of memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/e2e/cluster.h"
#include "tests/sanitized.h"

namespace ringway::e2e {
namespace {

using bench::Reduction;

constexpr std::uint32_t kWorld = 4;

std::vector<Reduction> AllReductions() {
  std::vector<Reduction> all;
  for (std::uint8_t dtype = 0; dtype < kDTypeCount; ++dtype) {
    for (std::uint8_t op = 0; op < kReduceOpCount; ++op) {
      const Reduction reduction{static_cast<DType>(dtype), static_cast<ReduceOp>(op), Codec::kNone};
      if (IsSupported(reduction.dtype, reduction.op, reduction.codec)) all.push_back(reduction);
    }
  }
  return all;
}

// Dtypes, blocks and roundings in turn.
Reduction InTurn(Codec codec, std::uint64_t number) {
  constexpr DType kDTypes[] = {DType::kF32, DType::kBF16, DType::kF16, DType::kF32};
  Reduction reduction{kDTypes[(number + number / 4) % std::size(kDTypes)], ReduceOp::kSum, codec};
  if (!IsSupported(reduction.dtype, reduction.op, codec)) reduction.dtype = DType::kF32;
  if (HasBlocks(codec)) reduction.codec.block = static_cast<std::uint16_t>(kBlockMin << number % 6);
  if (codec != Codec::kNone && number % 3 == 0) reduction.codec.rounding = Rounding::kStochastic;
  return reduction;
}

TEST(Reduce, LargerBuffersOfEveryTypeAreCutIntoSegments) {
  Cluster cluster({.daemons = kWorld});
  const Sessions ranks = cluster.JoinWorld(kWorld);
  ASSERT_EQ(ranks.size(), kWorld);
  std::uint64_t number = 0;
  for (const Reduction& reduction : AllReductions()) {
    if (reduction.op != ReduceOp::kSum && reduction.op != ReduceOp::kMax) continue;
    Round round(ranks, {.reduction = reduction, .count = 100'003, .number = number++});
    round.Submit();
    ASSERT_EQ(round.Check().world_size, kWorld);
  }
}

TEST(Reduce, EightRanksAreRightAtEverySize) {
  constexpr std::uint32_t kRanks = 8;
  Cluster cluster({.daemons = kRanks});
  const Sessions ranks = cluster.JoinWorld(kRanks);
  ASSERT_EQ(ranks.size(), kRanks);
  std::uint64_t number = 0;
  for (const std::size_t count : {0, 7, 8, 100'003, kSanitized ? 500'003 : 2'000'003}) {
    Round round(ranks, {.reduction = {}, .count = count, .number = number++});
    round.Submit();
    const OpResult result = round.Check();
    EXPECT_EQ(result.world_size, kRanks);
    EXPECT_EQ(result.retries, 0u);
  }
}

TEST(Reduce, EveryAlgorithmIsRightAtEverySizeAndNamed) {
  constexpr std::uint32_t kRanks = 5;  // no power of two
  Cluster cluster({.daemons = kRanks});
  const Sessions ranks = cluster.JoinWorld(kRanks);
  ASSERT_EQ(ranks.size(), kRanks);
  std::uint64_t number = 0;
  for (std::uint8_t algorithm = 0; algorithm < kAlgorithmCount; ++algorithm) {
    for (const CodecInfo& codec : kCodecs) {
      for (const std::size_t count : {0, 7, 10'003, kSanitized ? 200'003 : 700'003}) {
        // A third of the pairs, with every algorithm and every codec.
        if ((kSanitized || count > 100'000) && (algorithm + static_cast<std::size_t>(codec.codec)) % 3 != 0) continue;
        SCOPED_TRACE(testing::Message() << NameOf(static_cast<Algorithm>(algorithm)) << ' ' << codec.name << " count "
                                        << count << " number " << number);
        Round round(ranks, {.reduction = InTurn(codec.codec, number),
                            .count = count,
                            .number = number,
                            .algorithm = static_cast<Algorithm>(algorithm)});
        ++number;
        round.Submit();
        const OpResult result = round.Check();
        ASSERT_EQ(result.world_size, kRanks);
        EXPECT_EQ(result.algorithm, static_cast<Algorithm>(algorithm));
        EXPECT_EQ(result.error_bound > 0, codec.error.relative_max > 0);
        EXPECT_LT(result.error_bound, kRanks * kRanks * 2 * codec.error.relative_max + 0.5);
      }
    }
  }
}

TEST(Reduce, EveryKindOfMemoryGivesTheSame) {
  Cluster cluster({.daemons = kWorld});
  const Sessions ranks = cluster.JoinWorld(kWorld);
  ASSERT_EQ(ranks.size(), kWorld);
  std::uint64_t number = 0;
  // 700,000 floats are staged in pieces.
  for (const std::size_t count : {0, 1, 257, 700'003}) {
    for (const Memory memory :
         {Memory::kHeap, Memory::kHeapInPlace, Memory::kBuffer, Memory::kBufferInPlace, Memory::kUnaligned}) {
      SCOPED_TRACE(testing::Message() << "memory " << static_cast<int>(memory) << " count " << count);
      Round round(ranks, {.reduction = {}, .count = count, .number = number++, .memory = memory});
      round.Submit();
      ASSERT_EQ(round.Check().world_size, kWorld);
    }
  }
}

TEST(Reduce, CodecsGiveEqualBytesOnAllRanksAndSendLess) {
  Cluster cluster({.daemons = kWorld});
  const Sessions ranks = cluster.JoinWorld(kWorld);
  ASSERT_EQ(ranks.size(), kWorld);
  std::uint64_t number = 0;
  for (std::uint8_t op = 0; op < kReduceOpCount; ++op) {
    std::uint64_t sent[kCodecCount] = {};
    for (const CodecInfo& codec : kCodecs) {
      const Reduction reduction{DType::kF32, static_cast<ReduceOp>(op), codec.codec};
      for (const std::size_t count : {0, 1, 257, 100'003}) {
        // A plan goes by the size on the wire, and rates that a busy machine shows.
        Round round(ranks, {.reduction = reduction, .count = count, .number = number++, .algorithm = Algorithm::kRing});
        round.Submit();
        sent[static_cast<std::uint8_t>(codec.codec)] = round.Check().wire_bytes;
      }
    }
    for (const CodecInfo& codec : kCodecs) {
      const double raw =
          static_cast<double>(sent[0]) / static_cast<double>(EncodedBytes(Codec::kNone, DType::kF32, 256));
      const double expected = raw * static_cast<double>(EncodedBytes(codec.codec, DType::kF32, 256));
      EXPECT_NEAR(static_cast<double>(sent[static_cast<std::uint8_t>(codec.codec)]), expected, 0.1 * expected)
          << codec.name;
    }
  }
}

TEST(Reduce, ManyOperationsAreInFlightOnSeveralChannels) {
  Cluster cluster({.daemons = kWorld});
  const Sessions ranks = cluster.JoinWorld(kWorld);
  ASSERT_EQ(ranks.size(), kWorld);
  std::vector<std::unique_ptr<Round>> rounds;
  for (std::uint64_t i = 0; i < 64; ++i) {
    const std::size_t count = i % 7 == 0 ? 50'000 : 10 * i;
    rounds.push_back(std::make_unique<Round>(
        ranks,
        RoundOptions{.reduction = {}, .count = count, .number = i, .channel = static_cast<std::uint32_t>(i % 5)}));
  }
  for (const auto& round : rounds) round->Submit();
  // Waited for in another order than submitted.
  std::reverse(rounds.begin(), rounds.end());
  for (const auto& round : rounds) EXPECT_EQ(round->Check().world_size, kWorld);
}

// Each rank has a thread a channel; ranks interleave their channels as the threads happen to run.
TEST(Reduce, ThreadsOfOneSessionUseAChannelEach) {
  constexpr std::uint32_t kThreads = 3;
  Cluster cluster({.daemons = 2});
  const Sessions ranks = cluster.JoinWorld(2);
  ASSERT_EQ(ranks.size(), 2u);
  std::vector<std::thread> threads;
  for (const auto& session : ranks) {
    for (std::uint32_t channel = 0; channel < kThreads; ++channel) {
      threads.emplace_back([&session, channel] {
        for (std::uint64_t i = 0; i < 64; ++i) {
          Round round(
              std::vector<Session*>{session.get()},
              {.reduction = {}, .count = 100 * (i + channel), .number = 1000 * channel + i, .channel = channel});
          round.Submit();
          EXPECT_EQ(round.Check().world_size, 2u);
        }
      });
    }
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Reduce, TrainersOfOneDaemonAndGroupAreRanksLikeOthers) {
  Cluster cluster({.daemons = 2});
  std::vector<JoinOptions> options;
  for (std::size_t i = 0; i < 4; ++i) {
    options.push_back(cluster.At(i / 2, "job", 4));
    options.back().name = "trainer" + std::to_string(i);
  }
  const Sessions ranks = cluster.JoinAll(options);
  ASSERT_EQ(ranks.size(), 4u);
  for (const std::size_t count : {1, 257, 100'003}) {
    Round round(ranks, {.reduction = {}, .count = count});
    round.Submit();
    EXPECT_EQ(round.Check().world_size, 4u);
  }
}

TEST(Reduce, GroupOfOneGetsItsInput) {
  Cluster cluster({.daemons = 1});
  const Sessions ranks = cluster.JoinWorld(1);
  ASSERT_EQ(ranks.size(), 1u);
  for (const Memory memory : {Memory::kHeapInPlace, Memory::kBuffer}) {
    Round round(ranks, {.reduction = {DType::kF64, ReduceOp::kAvg, Codec::kNone}, .count = 100'003, .memory = memory});
    round.Submit();
    EXPECT_EQ(round.Check().world_size, 1u);
  }
}

// Returns the largest error, relative to the largest sum, of what `rounds` operations with the same inputs delivered in
// all.
double DriftOf(const Sessions& ranks, int rounds, const std::string& name) {
  constexpr std::size_t kCount = 20'000;
  std::vector<double> error(kCount);
  double largest = 0;
  for (int round = 0; round < rounds; ++round) {
    std::vector<std::vector<float>> values(ranks.size(), std::vector<float>(kCount));
    std::vector<Work> works;
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      for (std::size_t i = 0; i < kCount; ++i) {
        values[rank][i] = std::sin(static_cast<float>(i * (rank + 1)));
        error[i] -= static_cast<double>(values[rank][i]);
      }
      auto work = ranks[rank]->AllReduceAsync(values[rank].data(), values[rank].data(), kCount, DType::kF32,
                                              ReduceOp::kSum, {.codec = Codec::kInt4, .error_feedback = name});
      if (!work.ok()) return ADD_FAILURE() << work.status().text(), 1e9;
      works.push_back(std::move(*work));
    }
    for (Work& work : works) {
      if (const auto outcome = work.Wait(kPatience); !outcome.ok())
        return ADD_FAILURE() << outcome.status().text(), 1e9;
    }
    for (std::size_t rank = 1; rank < ranks.size(); ++rank) EXPECT_EQ(values[rank], values[0]);
    for (std::size_t i = 0; i < kCount; ++i) {
      error[i] += static_cast<double>(values[0][i]);
      largest = std::max(largest, std::fabs(static_cast<double>(values[0][i])));
    }
  }
  double worst = 0;
  for (const double each : error) worst = std::max(worst, std::fabs(each));
  return worst / largest;
}

TEST(Reduce, ErrorFeedbackKeepsTheErrorOfManyOperationsThatOfOne) {
  Cluster cluster({.daemons = 3});
  const Sessions ranks = cluster.JoinWorld(3);
  ASSERT_EQ(ranks.size(), 3u);
  constexpr int kRounds = 20;
  EXPECT_GT(DriftOf(ranks, kRounds, ""), kRounds * 0.05) << "int4 takes the same from each operation";
  EXPECT_LT(DriftOf(ranks, kRounds, "gradient"), 1.0);
  EXPECT_LT(DriftOf(ranks, kRounds, "another"), 1.0);

  std::vector<float> values(100), other(100);
  const auto refused = [&](const OpOptions& options, ReduceOp op) {
    return ranks[0]->AllReduce(values.data(), other.data(), values.size(), DType::kF32, op, options).status();
  };
  EXPECT_EQ(refused({.error_feedback = "gradient"}, ReduceOp::kSum).code(), Code::kNotSupported);
  EXPECT_EQ(refused({.codec = Codec::kInt8, .error_feedback = "gradient"}, ReduceOp::kMax).code(), Code::kNotSupported);
}

// The result of `value` on each rank, in every element.
struct Reduced {
  float value = 0;
  float error_bound = 0;
};
Reduced ReduceEverywhere(const Sessions& ranks, float value, ReduceOp op, const OpOptions& options) {
  std::vector<std::vector<float>> values(ranks.size(), std::vector<float>(1000, value));
  std::vector<Work> works;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    float* const at = values[rank].data();
    auto work = ranks[rank]->AllReduceAsync(at, at, values[rank].size(), DType::kF32, op, options);
    if (!work.ok()) return ADD_FAILURE() << work.status().text(), Reduced();
    works.push_back(std::move(*work));
  }
  Reduced reduced;
  for (Work& work : works) {
    const auto outcome = work.Wait(kPatience);
    if (!outcome.ok()) return ADD_FAILURE() << outcome.status().text(), Reduced();
    if (&work != &works.front()) {
      EXPECT_EQ(outcome->error_bound, reduced.error_bound);
    }
    reduced.error_bound = outcome->error_bound;
  }
  for (const std::vector<float>& each : values) EXPECT_EQ(each, values[0]);
  reduced.value = values[0][0];
  return reduced;
}

TEST(Reduce, AverageIsFiniteWhereTheSumOverflowsItsCodecAndTheSumsErrorBoundIsInfinite) {
  Cluster cluster({.daemons = 3});
  const Sessions ranks = cluster.JoinWorld(3);
  ASSERT_EQ(ranks.size(), 3u);
  constexpr float kValue = 40'000;
  for (const Algorithm algorithm : {Algorithm::kRing, Algorithm::kDirect, Algorithm::kOneShot, Algorithm::kTree}) {
    SCOPED_TRACE(NameOf(algorithm));
    const OpOptions options{.codec = Codec::kF16, .algorithm = algorithm};
    const Reduced average = ReduceEverywhere(ranks, kValue, ReduceOp::kAvg, options);
    EXPECT_NEAR(average.value, kValue, average.error_bound * kValue);
    EXPECT_LT(average.error_bound, 0.01);
    const Reduced sum = ReduceEverywhere(ranks, kValue, ReduceOp::kSum, options);
    EXPECT_TRUE(std::isinf(sum.value)) << sum.value;
    EXPECT_TRUE(std::isinf(sum.error_bound)) << sum.error_bound;
  }
}

TEST(Reduce, RefusedCombinationsAreTypedErrorsAndHurtNobody) {
  Cluster cluster({.daemons = 2});
  const Sessions ranks = cluster.JoinWorld(2);
  ASSERT_EQ(ranks.size(), 2u);
  int value = 1;
  const Outcome average = ranks[0]->AllReduce(&value, &value, 1, DType::kI32, ReduceOp::kAvg);
  EXPECT_EQ(average.status().code(), Code::kNotSupported);
  const Outcome codec = ranks[0]->AllReduce(&value, &value, 1, DType::kI32, ReduceOp::kSum, {.codec = Codec::kInt8});
  EXPECT_EQ(codec.status().code(), Code::kNotSupported);
  const Outcome channel = ranks[0]->AllReduce(&value, &value, 1, DType::kI32, ReduceOp::kSum, {.channel = 64});
  EXPECT_EQ(channel.status().code(), Code::kInvalidArgument);
  Round round(ranks);
  round.Submit();
  EXPECT_EQ(round.Check().world_size, 2u);
}

}  // namespace
}  // namespace ringway::e2e
