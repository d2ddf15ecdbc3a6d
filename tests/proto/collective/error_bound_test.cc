#include "proto/collective/error_bound.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

namespace ringway::collective {
namespace {

double BoundOf(std::uint32_t world_size, Algorithm algorithm, const Encoding& codec, ReduceOp op = ReduceOp::kSum,
               OpKind kind = OpKind::kAllReduce) {
  Routes routes;
  for (std::uint32_t rank = 0; rank < world_size; ++rank) {
    routes.ring.emplace_back(rank);
    routes.sites.push_back(rank / 2);
  }
  const Descriptor descriptor{kind, DType::kF32, op, codec, algorithm, 1000};
  return ErrorBound(TransfersOf(kind, algorithm, routes), descriptor, world_size);
}

TEST(ErrorBoundTest, IsThatOfTheTextbookWhereErrorsAreSmall) {
  const double e = InfoOf(Codec::kF16).error.relative_max;
  for (const double k : {2.0, 3.0, 5.0, 16.0, 64.0}) {
    const auto world_size = static_cast<std::uint32_t>(k);
    const double second_order = 1 + 2 * k * e;
    const auto expect = [&](Algorithm algorithm, double first_order) {
      const double bound = BoundOf(world_size, algorithm, Codec::kF16);
      EXPECT_GE(bound, first_order) << NameOf(algorithm) << k;
      EXPECT_LE(bound, first_order * second_order) << NameOf(algorithm) << k;
      EXPECT_NEAR(BoundOf(world_size, algorithm, Codec::kF16, ReduceOp::kAvg) * k, bound, bound * 1e-3);
    };
    expect(Algorithm::kRing, e * k * (k + 1) / 2);
    expect(Algorithm::kDirect, e * (2 * k - 1));
    expect(Algorithm::kOneShot, e * 2 * k);
    expect(Algorithm::kNaive, e * (2 * k - 1));
  }
}

TEST(ErrorBoundTest, ExtremaAndHalvesOfAnAllReduceAreRoundedLessOftenAndProductsHaveNone) {
  const double e = InfoOf(Codec::kF16).error.relative_max;
  EXPECT_NEAR(BoundOf(4, Algorithm::kDirect, Codec::kF16, ReduceOp::kMax), 2 * e, 2 * e * 0.01);
  EXPECT_NEAR(BoundOf(4, Algorithm::kRing, Codec::kF16, ReduceOp::kMin), 4 * e, 4 * e * 0.01);
  EXPECT_NEAR(BoundOf(4, Algorithm::kRing, Codec::kF16, ReduceOp::kSum, OpKind::kAllGather), e, e * 0.01);
  EXPECT_NEAR(BoundOf(4, Algorithm::kDirect, Codec::kF16, ReduceOp::kSum, OpKind::kReduceScatter), 3 * e, 3 * e * 0.01);
  EXPECT_TRUE(std::isinf(BoundOf(4, Algorithm::kRing, Codec::kF16, ReduceOp::kProd)));
  EXPECT_EQ(BoundOf(4, Algorithm::kRing, Codec::kNone), 0);
  EXPECT_EQ(BoundOf(1, Algorithm::kRing, Codec::kInt4), 0);
}

TEST(ErrorBoundTest, StochasticRoundingIsOffByAWholeStep) {
  const Encoding stochastic(Codec::kF16, 0, Rounding::kStochastic);
  EXPECT_NEAR(BoundOf(4, Algorithm::kDirect, stochastic), 2 * BoundOf(4, Algorithm::kDirect, Codec::kF16), 1e-4);
}

TEST(ErrorBoundTest, EverySchedulesBoundIsFiniteAndAboveOneRounding) {
  for (std::uint8_t algorithm = 0; algorithm < kAlgorithmCount; ++algorithm) {
    for (const std::uint32_t world_size : {2u, 3u, 7u, 8u, 64u}) {
      const double bound = BoundOf(world_size, static_cast<Algorithm>(algorithm), Codec::kInt8);
      EXPECT_TRUE(std::isfinite(bound)) << int{algorithm};
      EXPECT_GE(bound, InfoOf(Codec::kInt8).error.relative_max * world_size) << int{algorithm};
    }
  }
}

}  // namespace
}  // namespace ringway::collective
