// All-gather and reduce-scatter on real daemons: every kind of memory, codecs, algorithms, and a death in the middle.
#include <gtest/gtest.h>

#include <csignal>
#include <functional>
#include <future>
#include <memory>
#include <numeric>
#include <vector>

#include "tests/e2e/checks.h"
#include "tests/sanitized.h"

namespace ringway::e2e {
namespace {

constexpr std::uint32_t kThree = 3;
constexpr OpKind kHalves[] = {OpKind::kAllGather, OpKind::kReduceScatter};

class CollectivesTest : public testing::Test {
 protected:
  void SetUp() override {
    ranks_ = cluster_.JoinWorld(kThree);
    ASSERT_EQ(ranks_.size(), kThree);
  }
  Cluster cluster_{{.daemons = kThree}};
  Sessions ranks_;
};

TEST_F(CollectivesTest, AreRightAtEverySizeOfEveryDTypeInAnyMemory) {
  std::uint64_t number = 0;
  for (const OpKind collective : kHalves) {
    for (const std::size_t count : {0, 1, 2, 255, 1000, 100'003}) {
      for (std::uint8_t dtype = 0; dtype < kDTypeCount; ++dtype) {
        const bool in_place = collective == OpKind::kReduceScatter && number % 2 == 0;
        const Memory memories[] = {Memory::kBuffer, in_place ? Memory::kHeapInPlace : Memory::kHeap,
                                   in_place ? Memory::kBufferInPlace : Memory::kUnaligned};
        Round round(ranks_, {.reduction = {.dtype = static_cast<DType>(dtype)},
                             .count = count,
                             .number = number,
                             .memory = memories[number % 3],
                             .collective = collective});
        round.Submit();
        EXPECT_EQ(round.Check().world_size, kThree);
        ++number;
      }
    }
  }
}

TEST_F(CollectivesTest, AreRightWithEveryCodecAndAlgorithmAndLarge) {
  std::uint64_t number = 0;
  for (const OpKind collective : kHalves) {
    for (const Algorithm algorithm : {Algorithm::kRing, Algorithm::kDirect}) {
      for (const CodecInfo& codec : kCodecs) {
        Round round(ranks_, {.reduction = {.codec = codec.codec},
                             .count = kSanitized ? 200'003 : 1'000'003,
                             .number = ++number,
                             .memory = Memory::kHeap,
                             .algorithm = algorithm,
                             .collective = collective});
        round.Submit();
        EXPECT_EQ(round.Check().algorithm, algorithm);
      }
    }
  }
}

TEST_F(CollectivesTest, SurvivorsHaveTheirPartsAfterADeathInTheMiddle) {
  for (const OpKind collective : kHalves) {
    const RoundOptions large{.reduction = {}, .count = kLargeCount, .number = 7, .collective = collective};
    Round before(ranks_, large);
    before.Submit();
    EXPECT_EQ(before.Check().world_size, ranks_.size());
  }
  cluster_.daemon(2).Freeze();
  std::vector<std::unique_ptr<Round>> rounds;
  for (const OpKind collective : kHalves) {
    rounds.push_back(std::make_unique<Round>(
        ranks_, RoundOptions{.reduction = {}, .count = kLargeCount, .number = 8, .collective = collective}));
    rounds.back()->Submit();
  }
  cluster_.daemon(2).Kill();
  for (const auto& round : rounds) {
    round->work(2) = Work();
    const OpResult result = round->Check();
    EXPECT_EQ(result.world_size, kThree - 1);
    EXPECT_GE(result.retries, 1u);
  }
}

TEST_F(CollectivesTest, OthersThanTheSameCollectiveAreAMismatch) {
  ExpectMismatch(ranks_, {.reduction = {}, .count = 300, .collective = OpKind::kReduceScatter},
                 {.reduction = {}, .count = 300}, "reduce_scatter of 300", "all_reduce of 300");
}

TEST_F(CollectivesTest, WrongCallsAreRefusedByNameAndSubmitNothing) {
  Session& rank = *ranks_[0];
  std::vector<float> memory(100);
  float* const data = memory.data();
  const auto code = [](const auto& outcome) { return outcome.status().code(); };
  EXPECT_EQ(code(rank.AllGatherAsync(data, 10, data + 10, 29, DType::kF32)), Code::kInvalidArgument);
  EXPECT_EQ(code(rank.AllGatherAsync(data, 10, data, 30, DType::kF32)), Code::kInvalidArgument);
  EXPECT_EQ(code(rank.AllGatherAsync(data + 39, 10, data + 10, 30, DType::kF32)), Code::kInvalidArgument);
  EXPECT_EQ(code(rank.AllGatherAsync(data, 10, data + 10, 30, DType::kF32, {.algorithm = Algorithm::kTree})),
            Code::kNotSupported);
  EXPECT_EQ(code(rank.ReduceScatterAsync(data, data + 1, 10, DType::kF32, ReduceOp::kSum)), Code::kInvalidArgument);
  EXPECT_EQ(code(rank.ReduceScatterAsync(data, data + 10, 10, DType::kI32, ReduceOp::kAvg)), Code::kNotSupported);
  ExpectWorks(ranks_);
}

// Elements outside the rank's part stay as they were in memory that is not a Buffer's.
TEST_F(CollectivesTest, ReduceScatterWritesItsPartAlone) {
  constexpr std::size_t kCount = 10;  // parts of 4, 4 and 2
  std::vector<std::vector<float>> outputs(kThree, std::vector<float>(kCount, -1.0f));
  std::vector<float> input(kCount);
  std::iota(input.begin(), input.end(), 1.0f);
  std::vector<Work> works;
  for (std::uint32_t i = 0; i < kThree; ++i) {
    auto work = ranks_[i]->ReduceScatterAsync(input.data(), outputs[i].data(), kCount, DType::kF32, ReduceOp::kSum);
    ASSERT_TRUE(work.ok()) << work.status().text();
    works.push_back(std::move(*work));
  }
  for (std::uint32_t i = 0; i < kThree; ++i) {
    const auto result = works[i].Wait(kPatience);
    ASSERT_TRUE(result.ok()) << result.status().text();
    const std::size_t begin = result->rank * 4;
    EXPECT_EQ(result->part.begin, begin);
    EXPECT_EQ(result->part.count, result->rank < 2 ? 4u : 2u);
    for (std::size_t k = 0; k < kCount; ++k) {
      const bool mine = k >= begin && k < begin + result->part.count;
      EXPECT_EQ(outputs[i][k], mine ? 3.0f * input[k] : -1.0f) << "rank " << result->rank << " element " << k;
    }
  }
}

// `run(rank)` on all at once.
void OnEveryRank(const std::function<void(std::size_t)>& run) {
  std::vector<std::future<void>> running;
  for (std::size_t rank = 0; rank < kThree; ++rank) running.push_back(std::async(std::launch::async, run, rank));
  for (auto& each : running) each.get();
}

// Tensors of 0 to 20'000 elements, one in place and one not, by turns: at every rank the sums, each at its place.
TEST_F(CollectivesTest, ManyTensorsAreReducedAsOneOperation) {
  for (const bool large : {false, true}) {
    const std::vector<std::size_t> counts = {3, 0, 257, large ? 2'000'000UL : 20'000UL, 1};
    const auto run = [&](std::size_t rank) {
      std::vector<std::vector<float>> in, out;
      for (std::size_t t = 0; t < counts.size(); ++t) {
        in.emplace_back(counts[t], static_cast<float>((rank + 1) * (t + 1)));
        out.emplace_back(counts[t], -1.0f);
      }
      std::vector<Tensor> tensors;
      for (std::size_t t = 0; t < counts.size(); ++t)
        tensors.push_back({in[t].data(), t % 2 == 0 ? in[t].data() : out[t].data(), counts[t]});
      const auto result = ranks_[rank]->AllReduceMany(tensors, DType::kF32, ReduceOp::kSum);
      EXPECT_TRUE(result.ok()) << result.status().text();
      for (std::size_t t = 0; t < counts.size(); ++t) {
        const float sum = static_cast<float>(6 * (t + 1));
        for (const float value : t % 2 == 0 ? in[t] : out[t]) ASSERT_EQ(value, sum) << "tensor " << t;
        if (t % 2 == 0) continue;
        for (const float value : in[t]) ASSERT_EQ(value, static_cast<float>((rank + 1) * (t + 1)));
      }
    };
    OnEveryRank(run);
  }
}

// A block's scale would be that of the large one, and nothing left of the small.
TEST_F(CollectivesTest, CodecOfOneTensorTakesNothingFromTheNext) {
  const auto run = [&](std::size_t rank) {
    std::vector<float> large(10, 1e6f), small(10, 1e-3f);
    const std::vector<Tensor> tensors = {{large.data(), large.data(), 10}, {small.data(), small.data(), 10}};
    OpOptions options;
    options.codec = Codec::kInt8;
    const auto result = ranks_[rank]->AllReduceMany(tensors, DType::kF32, ReduceOp::kSum, options);
    EXPECT_TRUE(result.ok()) << result.status().text();
    EXPECT_NEAR(large[9], 3e6f, 3e6f / 50);
    EXPECT_NEAR(small[0], 3e-3f, 3e-3f / 50);
  };
  OnEveryRank(run);
}

TEST_F(CollectivesTest, ManyTensorsOfOtherCountsAreAMismatchOnAllRanks) {
  std::vector<float> data(100);
  std::vector<Work> works;
  for (std::size_t rank = 0; rank < kThree; ++rank) {
    auto work = ranks_[rank]->AllReduceManyAsync(
        {{data.data(), data.data(), 50}, {data.data() + 50, data.data() + 50, 40 + rank}}, DType::kF32, ReduceOp::kSum);
    ASSERT_TRUE(work.ok()) << work.status().text();
    works.push_back(std::move(*work));
  }
  for (Work& work : works) EXPECT_EQ(work.Wait().status().code(), Code::kMismatch);
}

}  // namespace
}  // namespace ringway::e2e
