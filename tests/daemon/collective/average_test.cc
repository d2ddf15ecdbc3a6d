// Averages of contributions near the largest number: finite, and as close to exact arithmetic as promised, whatever
// adds them up.
#include <gtest/gtest.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "proto/collective/error_bound.h"
#include "tests/daemon/collective/numbers.h"
#include "tests/daemon/collective/world.h"
#include "tests/sanitized.h"

namespace ringway::collective {
namespace {

constexpr std::uint64_t kAverageCount = 1500;
constexpr std::uint64_t kAverageSegment = 4096;

struct Extent {
  double largest = 0;
  double rounding = 0;  // half of the last place of a number in [1, 2)
};

Extent ExtentOf(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return {65504, 0x1p-11};
    case DType::kBF16:
      return {0x1.fep127, 0x1p-8};
    case DType::kF32:
      return {FLT_MAX, 0x1p-24};
    default:
      return {DBL_MAX, 0x1p-53};
  }
}

bool IsFp8(Codec codec) { return codec == Codec::kFp8E4m3 || codec == Codec::kFp8E5m2; }

double LargestOf(DType dtype, Codec codec) {
  if (dtype == DType::kF16 && IsFp8(codec)) return 57344;
  return std::min(ExtentOf(dtype).largest, InfoOf(codec).error.magnitude_max);
}

// Returns the average in units of `largest`, so that nothing here overflows either.
double AverageOf(const std::vector<std::vector<double>>& inputs, std::size_t i, double largest) {
  double sum = 0;
  for (const std::vector<double>& input : inputs) sum += input[i] / largest;
  return sum / static_cast<double>(inputs.size());
}

// Up to `largest` in magnitude; a third of the elements are `largest` on every rank.
std::vector<std::vector<std::byte>> LargeInputs(DType dtype, std::uint32_t world_size, double largest,
                                                std::uint64_t seed) {
  const bool fits = NumbersOf(dtype, ElementsOf(dtype, std::vector<double>{largest}))[0] <= largest;
  const double top = fits ? largest : largest * (1 - 2 * ExtentOf(dtype).rounding);  // is not rounded up past it
  std::vector<std::vector<std::byte>> inputs;
  for (std::uint32_t rank = 0; rank < world_size; ++rank) {
    std::mt19937_64 random(seed * 64 + rank);
    std::vector<double> values(kAverageCount);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double fraction = std::uniform_real_distribution<double>(i % 3 == 1 ? -1 : 0.9, 1)(random);
      values[i] = i % 3 == 0 ? top : top * fraction;
    }
    inputs.push_back(ElementsOf(dtype, values));
  }
  return inputs;
}

using AverageCase = std::tuple<DType, Codec, Algorithm>;

class AverageWorld : public testing::TestWithParam<AverageCase> {};

TEST_P(AverageWorld, OfLargeContributionsIsFiniteAndWithinItsBound) {
  const auto [dtype, codec, algorithm] = GetParam();
  for (const std::uint32_t world_size : {2u, 3u, 4u, 5u, 8u}) {
    for (const Rounding rounding : {Rounding::kNearestEven, Rounding::kStochastic}) {
      if (codec == Codec::kNone && rounding != Rounding::kNearestEven) continue;
      const Encoding encoding(codec, Encoding(codec).block, rounding);
      const Descriptor descriptor{OpKind::kAllReduce, dtype, ReduceOp::kAvg, encoding, algorithm, kAverageCount};
      SCOPED_TRACE(std::to_string(world_size) + " " + NameOf(rounding));
      const double bound =
          ErrorBound(TransfersOf(descriptor.kind, algorithm, World::RoutesOf(world_size)), descriptor, world_size);
      const double largest = LargestOf(dtype, codec) / (1 + bound);
      for (std::uint64_t seed = 0; seed < TurnsOf(2); ++seed) {
        World world(descriptor, LargeInputs(dtype, world_size, largest, seed), kAverageSegment);
        std::vector<std::vector<double>> inputs;
        for (std::uint32_t rank = 0; rank < world_size; ++rank) inputs.push_back(NumbersOf(dtype, world.input(rank)));
        world.Run(seed);
        for (std::uint32_t rank = 0; rank < world_size; ++rank) {
          ASSERT_TRUE(world.executor(rank).complete());
          ASSERT_TRUE(world.executor(rank).finite());
          ASSERT_EQ(world.output(rank), world.output(0));
        }
        const double sums = world_size * ExtentOf(dtype).rounding;  // what rounds them has no part in the bound
        const std::vector<double> got = NumbersOf(dtype, world.output(0));
        for (std::size_t i = 0; i < got.size(); ++i) {
          ASSERT_TRUE(std::isfinite(got[i])) << i;
          ASSERT_LE(std::fabs(got[i] / largest - AverageOf(inputs, i, largest)), bound + sums) << i;
        }
      }
    }
  }
}

std::vector<AverageCase> AverageCases() {
  std::vector<AverageCase> cases;
  for (const DType dtype : {DType::kF16, DType::kBF16, DType::kF32, DType::kF64}) {
    for (const CodecInfo& codec : kCodecs) {
      if (!IsSupported(dtype, ReduceOp::kAvg, codec.codec)) continue;
      for (std::uint8_t algorithm = 0; algorithm < kAlgorithmCount; ++algorithm)
        cases.emplace_back(dtype, codec.codec, static_cast<Algorithm>(algorithm));
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(All, AverageWorld, testing::ValuesIn(AverageCases()), [](const auto& test) {
  return std::string(NameOf(std::get<0>(test.param))) + "_" + NameOf(std::get<1>(test.param)) + "_" +
         NameOf(std::get<2>(test.param));
});

// The largest number on all ranks, the worst of sums that round monotonically, in worlds of every size.
TEST(AverageOfTheLargestNumber, IsThatNumber) {
  for (const DType dtype : {DType::kF16, DType::kBF16, DType::kF32, DType::kF64}) {
    for (std::uint8_t algorithm = 0; algorithm < kAlgorithmCount; ++algorithm) {
      for (std::uint32_t world_size = 2; world_size <= 64; world_size += kSanitized ? 7 : 1) {
        const Descriptor descriptor{
            OpKind::kAllReduce, dtype, ReduceOp::kAvg, Codec::kNone, static_cast<Algorithm>(algorithm), 100};
        const double largest = ExtentOf(dtype).largest;
        const std::vector<std::byte> input = ElementsOf(dtype, std::vector<double>(descriptor.count, largest));
        World world(descriptor, std::vector<std::vector<std::byte>>(world_size, input), kAverageSegment);
        world.Run(1);
        const double slack = world_size * ExtentOf(dtype).rounding;
        for (const double got : NumbersOf(dtype, world.output(0))) {
          ASSERT_TRUE(std::isfinite(got)) << NameOf(dtype) << ' ' << int{algorithm} << ' ' << world_size;
          ASSERT_GE(got / largest, 1 - slack) << NameOf(dtype) << ' ' << int{algorithm} << ' ' << world_size;
        }
      }
    }
  }
}

// Elsewhere the scaling is exact: the bytes are those of the sum, divided.
TEST(AverageOfOrdinaryNumbers, IsTheRoundedQuotientOfTheirSum) {
  for (const DType dtype : {DType::kF16, DType::kBF16, DType::kF32, DType::kF64}) {
    for (const std::uint32_t world_size : {2u, 3u, 5u, 7u}) {
      std::vector<std::vector<std::byte>> inputs;
      std::vector<double> wanted;
      for (std::uint32_t rank = 0; rank < world_size; ++rank) {
        std::vector<double> values;
        for (int i = 0; i < 300; ++i) values.push_back((i * 7 + static_cast<int>(rank) * 5) % 31 - 15);
        inputs.push_back(ElementsOf(dtype, values));
        wanted.resize(values.size());
        std::transform(values.begin(), values.end(), wanted.begin(), wanted.begin(), std::plus<>());
      }
      for (double& each : wanted) each /= world_size;
      const Descriptor descriptor{OpKind::kAllReduce, dtype, ReduceOp::kAvg, Codec::kNone, Algorithm::kRing, 300};
      World world(descriptor, inputs, kAverageSegment);
      world.Run(2);
      EXPECT_EQ(world.output(0), ElementsOf(dtype, wanted)) << NameOf(dtype) << ' ' << world_size;
    }
  }
}

TEST(FiniteResult, IsNotClaimedForASumThatOverflowsItsCodec) {
  for (const Algorithm algorithm : {Algorithm::kRing, Algorithm::kOneShot, Algorithm::kTree}) {
    for (const float value : {20'000.0F, 40'000.0F}) {
      const Descriptor descriptor{OpKind::kAllReduce, DType::kF32, ReduceOp::kSum, Codec::kF16, algorithm, 100};
      World world(descriptor, std::vector(3, Bytes(std::vector<float>(100, value))), kAverageSegment);
      world.Run(3);
      for (std::uint32_t rank = 0; rank < 3; ++rank)
        EXPECT_EQ(world.executor(rank).finite(), value < 30'000) << NameOf(algorithm) << ' ' << rank;
    }
  }
}

}  // namespace
}  // namespace ringway::collective
