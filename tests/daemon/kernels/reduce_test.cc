#include "daemon/kernels/reduce.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "tests/daemon/kernels/reference.h"

namespace ringway::kernels {
namespace {

using reference::Bits;
using Bytes = std::vector<unsigned char>;

constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kAvg, ReduceOp::kProd, ReduceOp::kMin, ReduceOp::kMax};
constexpr std::size_t kCounts[] = {0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 127, 255, 256, 257, 1023};

std::string Place(Isa isa, DType dtype, ReduceOp op) {
  return std::string(NameOf(isa)) + " " + NameOf(dtype) + " " + NameOf(op);
}

bool Defined(DType dtype, ReduceOp op) { return IsSupported(dtype, op, Codec::kNone); }

// Every element of dst is what the reference makes of a and b.
void ExpectCombined(DType dtype, ReduceOp op, const unsigned char* dst, const Bytes& a, const Bytes& b) {
  for (std::size_t i = 0; i < a.size() / SizeOf(dtype); ++i) {
    const Bits x = reference::ElementAt(dtype, a.data(), i), y = reference::ElementAt(dtype, b.data(), i);
    ASSERT_EQ(reference::ElementAt(dtype, dst, i), reference::Combine(dtype, op, x, y))
        << "element " << i << std::hex << " of " << x << " and " << y;
  }
}

class ReduceTest : public testing::TestWithParam<DType> {};

TEST_P(ReduceTest, EveryPairOfSpecialsMatchesTheReference) {
  const DType dtype = GetParam();
  const std::vector<Bits> specials = reference::Specials(dtype);
  Bytes a(specials.size() * specials.size() * SizeOf(dtype)), b(a.size()), dst(a.size());
  for (std::size_t i = 0; i < specials.size() * specials.size(); ++i) {
    reference::SetElement(dtype, a.data(), i, specials[i / specials.size()]);
    reference::SetElement(dtype, b.data(), i, specials[i % specials.size()]);
  }
  for (const Isa isa : reference::Isas()) {
    for (const ReduceOp op : kOps) {
      if (!Defined(dtype, op)) continue;
      SCOPED_TRACE(Place(isa, dtype, op));
      ReduceOn(isa, dtype, op, dst.data(), a.data(), b.data(), a.size() / SizeOf(dtype));
      ExpectCombined(dtype, op, dst.data(), a, b);
    }
  }
}

TEST_P(ReduceTest, AnyCountAtAnyAlignmentMatchesTheReferenceAndWritesNothingElse) {
  const DType dtype = GetParam();
  constexpr unsigned char kGuard = 0xa5;
  for (const std::size_t count : kCounts) {
    const Bytes a = reference::Mixture(dtype, count, count), b = reference::Mixture(dtype, count, count + 1);
    for (std::size_t offset = 0; offset < 4; ++offset) {
      Bytes left(a.size() + offset), right(b.size() + 3 - offset), out(a.size() + 64 + offset, kGuard);
      std::copy(a.begin(), a.end(), left.begin() + static_cast<std::ptrdiff_t>(offset));
      std::copy(b.begin(), b.end(), right.begin() + static_cast<std::ptrdiff_t>(3 - offset));
      for (const Isa isa : reference::Isas()) {
        for (const ReduceOp op : kOps) {
          if (!Defined(dtype, op)) continue;
          SCOPED_TRACE(Place(isa, dtype, op) + " count " + std::to_string(count));
          unsigned char* const dst = out.data() + offset;
          ReduceOn(isa, dtype, op, dst, left.data() + offset, right.data() + 3 - offset, count);
          ExpectCombined(dtype, op, dst, a, b);
          EXPECT_EQ(std::count(dst + a.size(), out.data() + out.size(), kGuard), 64);
        }
      }
    }
  }
}

TEST_P(ReduceTest, DestinationMayBeEitherOperand) {
  const DType dtype = GetParam();
  constexpr std::size_t kCount = 1001;
  const Bytes a = reference::Mixture(dtype, kCount, 5), b = reference::Mixture(dtype, kCount, 6);
  for (const Isa isa : reference::Isas()) {
    for (const ReduceOp op : kOps) {
      if (!Defined(dtype, op)) continue;
      SCOPED_TRACE(Place(isa, dtype, op));
      Bytes left = a, right = b;
      ReduceOn(isa, dtype, op, left.data(), left.data(), b.data(), kCount);
      ExpectCombined(dtype, op, left.data(), a, b);
      ReduceOn(isa, dtype, op, right.data(), a.data(), right.data(), kCount);
      ExpectCombined(dtype, op, right.data(), a, b);
    }
  }
}

TEST_P(ReduceTest, OperandOrderDoesNotChangeTheBytes) {
  const DType dtype = GetParam();
  EXPECT_TRUE(rc::check([dtype](std::uint64_t seed) {
    const std::size_t count = *rc::gen::inRange<std::size_t>(0, 600);
    const ReduceOp op = *rc::gen::elementOf(std::vector<ReduceOp>(std::begin(kOps), std::end(kOps)));
    RC_PRE(Defined(dtype, op));
    const Bytes a = reference::Mixture(dtype, count, seed), b = reference::Mixture(dtype, count, ~seed);
    Bytes ab(a.size()), ba(a.size());
    Reduce(dtype, op, ab.data(), a.data(), b.data(), count);
    Reduce(dtype, op, ba.data(), b.data(), a.data(), count);
    RC_ASSERT(ab == ba);
  }));
}

TEST(AverageScaleTest, IsThePowerOfTwoThatKOfThemAreAtMostOne) {
  for (const std::uint32_t contributors : {1u, 2u, 3u, 4u, 5u, 7u, 8u, 9u, 63u, 64u, 65u, 4294967295u}) {
    int exponent = 0;
    EXPECT_EQ(std::frexp(AverageScale(contributors), &exponent), 0.5) << contributors;
    EXPECT_LE(contributors * AverageScale(contributors), 1) << contributors;
    EXPECT_GT(contributors * AverageScale(contributors), 0.5) << contributors;
  }
}

TEST_P(ReduceTest, AveragesOfFloatsAreAddedByTheirScales) {
  const DType dtype = GetParam();
  constexpr std::size_t kCount = 1027;
  const Bytes a = reference::Mixture(dtype, kCount, 8), b = reference::Mixture(dtype, kCount, 9);
  for (const Isa isa : reference::Isas()) {
    for (const Scales scales : {Scales{0.5, 0.5}, Scales{1, 0x1p-6}, Scales{0x1p-3, 1}, Scales{1, 1}}) {
      SCOPED_TRACE(Place(isa, dtype, ReduceOp::kAvg) + " " + std::to_string(scales.a) + " " + std::to_string(scales.b));
      Bytes sum(a.size()), dst = a;
      ReduceOn(isa, dtype, ReduceOp::kSum, sum.data(), a.data(), b.data(), kCount, scales);
      ExpectCombined(dtype, ReduceOp::kSum, sum.data(), a, b);
      ReduceOn(isa, dtype, ReduceOp::kAvg, dst.data(), dst.data(), b.data(), kCount, scales);
      if (IsInteger(dtype)) {
        ASSERT_EQ(dst, sum);
        continue;
      }
      for (std::size_t i = 0; i < kCount; ++i) {
        const Bits x = reference::ElementAt(dtype, a.data(), i), y = reference::ElementAt(dtype, b.data(), i);
        ASSERT_EQ(reference::ElementAt(dtype, dst.data(), i), reference::ScaledSum(dtype, x, y, scales))
            << std::hex << x << ' ' << y;
      }
    }
  }
}

TEST_P(ReduceTest, InfinitiesAndNansAreNotFiniteWhereverTheyAre) {
  const DType dtype = GetParam();
  for (const std::size_t count : kCounts) {
    Bytes values(count * SizeOf(dtype));
    for (const Isa isa : reference::Isas()) {
      SCOPED_TRACE(Place(isa, dtype, ReduceOp::kSum) + " count " + std::to_string(count));
      EXPECT_TRUE(AreFiniteOn(isa, dtype, values.data(), count));
      for (const Bits special : reference::Specials(dtype)) {
        if (count == 0) continue;
        const std::size_t at = special % count;
        reference::SetElement(dtype, values.data(), at, special);
        const bool finite = IsInteger(dtype) || std::isfinite(reference::ToNumber(dtype, special));
        EXPECT_EQ(AreFiniteOn(isa, dtype, values.data(), count), finite) << std::hex << special;
        reference::SetElement(dtype, values.data(), at, 0);
      }
    }
  }
}

TEST_P(ReduceTest, FinalizeDividesAveragesOfFloatsByWhatTheirScaleLeaves) {
  const DType dtype = GetParam();
  constexpr std::size_t kCount = 4099;
  const Bytes sums = reference::Mixture(dtype, kCount, 7);
  for (const Isa isa : reference::Isas()) {
    for (const std::uint32_t contributors : {1u, 2u, 3u, 7u, 8u, 100u, 65537u, 16777217u, 4294967295u}) {
      SCOPED_TRACE(Place(isa, dtype, ReduceOp::kAvg) + " of " + std::to_string(contributors));
      Bytes dst = sums;
      FinalizeOn(isa, dtype, ReduceOp::kSum, dst.data(), kCount, contributors);
      ASSERT_EQ(dst, sums);
      FinalizeOn(isa, dtype, ReduceOp::kAvg, dst.data(), kCount, contributors);
      if (IsInteger(dtype)) {
        ASSERT_EQ(dst, sums);
        continue;
      }
      for (std::size_t i = 0; i < kCount; ++i) {
        const Bits x = reference::ElementAt(dtype, sums.data(), i);
        const double divisor = contributors * AverageScale(contributors);
        const Bits quotient = divisor == 1 ? x : reference::Divide(dtype, x, divisor);
        ASSERT_EQ(reference::ElementAt(dtype, dst.data(), i), quotient) << std::hex << x;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, ReduceTest,
                         testing::Values(DType::kU8, DType::kI8, DType::kU16, DType::kI16, DType::kU32, DType::kI32,
                                         DType::kU64, DType::kI64, DType::kF16, DType::kBF16, DType::kF32, DType::kF64),
                         [](const testing::TestParamInfo<DType>& test) { return std::string(NameOf(test.param)); });

// Sixteen bits can be tried out whole: each value against partners that shift its rounding and its range.
class HalfReduceTest : public testing::TestWithParam<DType> {};

TEST_P(HalfReduceTest, EveryValueMatchesTheReference) {
  const DType dtype = GetParam();
  constexpr std::size_t kCount = 65536;
  Bytes a(kCount * 2), b(kCount * 2), dst(kCount * 2);
  for (std::size_t i = 0; i < kCount; ++i) reference::SetElement(dtype, a.data(), i, i);
  for (const Bits partner : {0x0000, 0x8000, 0x0001, 0x3c00, 0x3f81, 0x1234, 0xb555, 0x7bff, 0x0400}) {
    for (std::size_t i = 0; i < kCount; ++i) reference::SetElement(dtype, b.data(), i, partner);
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kProd, ReduceOp::kMin, ReduceOp::kMax}) {
      for (const Isa isa : reference::Isas()) {
        SCOPED_TRACE(Place(isa, dtype, op));
        ReduceOn(isa, dtype, op, dst.data(), a.data(), b.data(), kCount);
        ExpectCombined(dtype, op, dst.data(), a, b);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, HalfReduceTest, testing::Values(DType::kF16, DType::kBF16),
                         [](const testing::TestParamInfo<DType>& test) { return std::string(NameOf(test.param)); });

struct Golden {
  DType dtype;
  ReduceOp op;
  Bits a, b, result;
};

// The rules of reduce.h by example.
constexpr Golden kGolden[] = {
    {DType::kU8, ReduceOp::kSum, 200, 100, 44},
    {DType::kI8, ReduceOp::kMin, 0x80, 0x7f, 0x80},
    {DType::kU8, ReduceOp::kMin, 0x80, 0x7f, 0x7f},
    {DType::kU16, ReduceOp::kProd, 0xffff, 0xffff, 1},
    {DType::kI64, ReduceOp::kSum, 0x7fffffffffffffff, 1, 0x8000000000000000},
    {DType::kF16, ReduceOp::kSum, 0x7bff, 0x4c00, 0x7c00},              // 65504 + 16 is a tie, and goes to infinity
    {DType::kF16, ReduceOp::kSum, 0x7bff, 0x4bff, 0x7bff},              // just below the tie
    {DType::kF16, ReduceOp::kProd, 0x0001, 0x3800, 0x0000},             // half of the least subnormal: even is 0
    {DType::kF16, ReduceOp::kProd, 0x0003, 0x3800, 0x0002},             // 1.5 of it: even is 2
    {DType::kBF16, ReduceOp::kSum, 0x3f80, 0x3b80, 0x3f80},             // 1 + 2^-8 is a tie, down to even
    {DType::kBF16, ReduceOp::kSum, 0x3f81, 0x3b80, 0x3f82},             // and up to even
    {DType::kF32, ReduceOp::kSum, 0x7f800000, 0xff800000, 0x7fc00000},  // inf - inf
    {DType::kF32, ReduceOp::kSum, 0xffc12345, 0x3f800000, 0x7fc00000},  // payload and sign are dropped
    {DType::kF32, ReduceOp::kProd, 0x7f800001, 0x00000000, 0x7fc00000},
    {DType::kF32, ReduceOp::kSum, 0x00000001, 0x00000001, 0x00000002},  // subnormals stay
    {DType::kF32, ReduceOp::kSum, 0x80000000, 0x80000000, 0x80000000},
    {DType::kF32, ReduceOp::kMin, 0x00000000, 0x80000000, 0x80000000},
    {DType::kF32, ReduceOp::kMax, 0x80000000, 0x00000000, 0x00000000},
    {DType::kF32, ReduceOp::kMax, 0xff800000, 0xffc00001, 0x7fc00000},
    {DType::kF64, ReduceOp::kMin, 0x7ff0000000000001, 0, 0x7ff8000000000000},
    {DType::kF64, ReduceOp::kSum, 0x3ff0000000000000, 0x3ca0000000000000, 0x3ff0000000000000},
};

TEST(ReduceGoldenTest, ExamplesHoldOnEveryInstructionSet) {
  for (const Golden& golden : kGolden) {
    // Enough elements to pass through the vector loop and the remainder.
    constexpr std::size_t kCount = 67;
    Bytes a(kCount * SizeOf(golden.dtype)), b(a.size()), dst(a.size());
    for (std::size_t i = 0; i < kCount; ++i) {
      reference::SetElement(golden.dtype, a.data(), i, golden.a);
      reference::SetElement(golden.dtype, b.data(), i, golden.b);
    }
    for (const Isa isa : reference::Isas()) {
      SCOPED_TRACE(Place(isa, golden.dtype, golden.op));
      ReduceOn(isa, golden.dtype, golden.op, dst.data(), a.data(), b.data(), kCount);
      for (std::size_t i = 0; i < kCount; ++i) {
        ASSERT_EQ(reference::ElementAt(golden.dtype, dst.data(), i), golden.result) << "element " << i;
      }
    }
  }
}

TEST(IsaTest, ActiveIsTheWidestAvailable) {
  EXPECT_TRUE(IsAvailable(Isa::kScalar));
  EXPECT_EQ(ActiveIsa(), reference::Isas().back());
}

}  // namespace
}  // namespace ringway::kernels
