#include "client/bench/check_values.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

namespace ringway::bench {
namespace {

constexpr std::size_t kCount = 1000;
constexpr std::uint64_t kOperation = 5;

template <typename T>
std::vector<T> Inputs(const Reduction& reduction, std::uint64_t peer) {
  std::vector<T> values(kCount);
  FillInput(reduction, {peer, kOperation}, values.data(), kCount);
  return values;
}

// Reduces as a straightforward program would, in the element type itself.
template <typename T, typename Combine>
std::vector<T> ReduceAll(const Reduction& reduction, const std::vector<std::uint64_t>& peers, Combine combine) {
  std::vector<T> result = Inputs<T>(reduction, peers[0]);
  for (std::size_t j = 1; j < peers.size(); ++j) {
    const std::vector<T> next = Inputs<T>(reduction, peers[j]);
    for (std::size_t i = 0; i < kCount; ++i) result[i] = combine(result[i], next[i]);
  }
  return result;
}

const std::vector<std::uint64_t> kPeers = {11, 42, 7};

TEST(CheckValuesTest, FloatSumInAnyOrderIsRight) {
  const Reduction reduction{DType::kF32, ReduceOp::kSum, Codec::kNone};
  auto result = ReduceAll<float>(reduction, kPeers, [](float a, float b) { return a + b; });
  EXPECT_EQ(CountWrong(reduction, kPeers, kOperation, result.data(), kCount), 0u);
  EXPECT_EQ(CountWrong(reduction, {7, 11, 42}, kOperation, result.data(), kCount), 0u);
  result[17] = std::nextafter(result[17], 1e9F);
  EXPECT_EQ(CountWrong(reduction, kPeers, kOperation, result.data(), kCount), 1u);
}

TEST(CheckValuesTest, OtherContributorsOrOperationsAreWrong) {
  const Reduction reduction{DType::kF32, ReduceOp::kSum, Codec::kNone};
  const auto result = ReduceAll<float>(reduction, kPeers, [](float a, float b) { return a + b; });
  EXPECT_GT(CountWrong(reduction, {11, 42}, kOperation, result.data(), kCount), kCount / 2);
  EXPECT_GT(CountWrong(reduction, kPeers, kOperation + 1, result.data(), kCount), kCount / 2);
  EXPECT_EQ(CountWrong(reduction, {}, kOperation, result.data(), kCount), kCount);
}

TEST(CheckValuesTest, FloatAverageIsTheRoundedQuotient) {
  const Reduction reduction{DType::kF32, ReduceOp::kAvg, Codec::kNone};
  auto result = ReduceAll<float>(reduction, kPeers, [](float a, float b) { return a + b; });
  for (float& value : result) value /= 3.0F;
  EXPECT_EQ(CountWrong(reduction, kPeers, kOperation, result.data(), kCount), 0u);
}

TEST(CheckValuesTest, IntegersWrap) {
  const Reduction sum{DType::kI8, ReduceOp::kSum, Codec::kNone};
  const auto sums = ReduceAll<std::int8_t>(sum, kPeers, [](std::int8_t a, std::int8_t b) {
    return static_cast<std::int8_t>(static_cast<unsigned>(a) + static_cast<unsigned>(b));
  });
  EXPECT_EQ(CountWrong(sum, kPeers, kOperation, sums.data(), kCount), 0u);
  const Reduction product{DType::kU16, ReduceOp::kProd, Codec::kNone};
  const auto products = ReduceAll<std::uint16_t>(product, kPeers, [](std::uint16_t a, std::uint16_t b) {
    return static_cast<std::uint16_t>(static_cast<unsigned>(a) * static_cast<unsigned>(b));
  });
  EXPECT_EQ(CountWrong(product, kPeers, kOperation, products.data(), kCount), 0u);
}

TEST(CheckValuesTest, MinimumPropagatesNaN) {
  const Reduction reduction{DType::kF64, ReduceOp::kMin, Codec::kNone};
  const auto result = ReduceAll<double>(reduction, kPeers, [](double a, double b) {
    return std::isnan(a) || std::isnan(b) ? std::numeric_limits<double>::quiet_NaN() : std::fmin(a, b);
  });
  EXPECT_EQ(CountWrong(reduction, kPeers, kOperation, result.data(), kCount), 0u);
  const auto ignoring = ReduceAll<double>(reduction, kPeers, [](double a, double b) { return std::fmin(a, b); });
  EXPECT_GT(CountWrong(reduction, kPeers, kOperation, ignoring.data(), kCount), 0u);
}

TEST(CheckValuesTest, HalvesReduceExactlyInEveryOperation) {
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    const auto decode = [&](std::uint16_t bits) { return dtype == DType::kF16 ? DecodeF16(bits) : DecodeBf16(bits); };
    const auto encode = [&](double value) { return dtype == DType::kF16 ? EncodeF16(value) : EncodeBf16(value); };
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kProd}) {
      const Reduction reduction{dtype, op, Codec::kNone};
      const auto result = ReduceAll<std::uint16_t>(reduction, kPeers, [&](std::uint16_t a, std::uint16_t b) {
        return encode(op == ReduceOp::kSum ? decode(a) + decode(b) : decode(a) * decode(b));
      });
      EXPECT_EQ(CountWrong(reduction, kPeers, kOperation, result.data(), kCount), 0u) << NameOf(dtype) << NameOf(op);
    }
  }
}

TEST(CheckValuesTest, HalfEncodingsMatchTheirDefinition) {
  EXPECT_EQ(EncodeF16(1.0), 0x3C00);
  EXPECT_EQ(EncodeF16(-2.0), 0xC000);
  EXPECT_EQ(EncodeF16(1.5), 0x3E00);
  EXPECT_EQ(EncodeF16(0.0), 0x0000);
  EXPECT_EQ(DecodeF16(0x0001), std::ldexp(1.0, -24));
  EXPECT_EQ(DecodeF16(0x7BFF), 65504.0);
  EXPECT_TRUE(std::isnan(DecodeF16(0x7E00)));
  EXPECT_TRUE(std::isinf(DecodeF16(0xFC00)));
  EXPECT_EQ(EncodeBf16(1.0), 0x3F80);
  EXPECT_EQ(DecodeBf16(0xC040), -3.0);
}

TEST(CheckValuesTest, EveryCodecAllowsItsErrorAndNoMore) {
  for (const CodecInfo& codec : kCodecs) {
    const Reduction reduction{DType::kF32, ReduceOp::kSum, codec.codec};
    const std::vector<std::uint64_t> pair = {1, 2};
    auto result = ReduceAll<float>(reduction, pair, [](float a, float b) { return a + b; });
    const auto error = static_cast<float>(1024 * codec.error.relative_max);  // of a sum of two
    result[0] += 2 * error;
    EXPECT_EQ(CountWrong(reduction, pair, kOperation, result.data(), kCount), 0u) << codec.name;
    result[1] += 2.5F * error + 0x1p-10F;
    EXPECT_EQ(CountWrong(reduction, pair, kOperation, result.data(), kCount), 1u) << codec.name;
  }
}

// One of two ranks was late, so the input of the other alone went through the codec.
TEST(CheckValuesTest, MembersWithoutAnInputMayHaveEncodedTheResult) {
  const Reduction reduction{DType::kF32, ReduceOp::kAvg, Codec::kInt8};
  auto result = ReduceAll<float>(reduction, {1}, [](float a, float b) { return a + b; });
  result[0] += static_cast<float>(512 * InfoOf(reduction.codec).error.relative_max);
  const auto wrong_of = [&](std::size_t absent) {
    const Collected collected{.output = result.data(), .count = kCount, .part = {0, kCount}, .absent = absent};
    return CountWrong(reduction, {1}, kOperation, collected);
  };
  EXPECT_EQ(wrong_of(1), 0u);
  EXPECT_EQ(wrong_of(0), 1u) << "a lone rank encodes nothing";
}

TEST(CheckValuesTest, ProductsStayWhereTheCodecIsExact) {
  std::vector<std::uint64_t> peers(64);
  std::iota(peers.begin(), peers.end(), 1);
  for (const CodecInfo& codec : kCodecs) {
    const Reduction reduction{DType::kF32, ReduceOp::kProd, codec.codec};
    const auto result = ReduceAll<float>(reduction, peers, [](float a, float b) { return a * b; });
    for (const float value : result) {
      const double magnitude = std::fabs(static_cast<double>(value));
      EXPECT_TRUE(magnitude >= codec.error.magnitude_min && magnitude <= codec.error.magnitude_max) << codec.name;
      const bool shares_scale = codec.layout.in_blocks;  // so that all have to be of one magnitude
      ASSERT_TRUE(!shares_scale || magnitude == 1.0) << codec.name << " " << magnitude;
    }
    EXPECT_EQ(CountWrong(reduction, peers, kOperation, result.data(), kCount), 0u) << codec.name;
  }
}

TEST(CheckValuesTest, OneContributorIsItsOwnAnswerForEveryType) {
  for (std::uint8_t i = 0; i < kDTypeCount; ++i) {
    const Reduction reduction{static_cast<DType>(i), ReduceOp::kMax, Codec::kNone};
    std::vector<std::uint64_t> memory(kCount);
    FillInput(reduction, {3, kOperation}, memory.data(), kCount);
    EXPECT_EQ(CountWrong(reduction, {3}, kOperation, memory.data(), kCount), 0u) << NameOf(reduction.dtype);
    std::memset(memory.data(), 0x55, kCount * SizeOf(reduction.dtype));
    EXPECT_GT(CountWrong(reduction, {3}, kOperation, memory.data(), kCount), kCount / 2) << NameOf(reduction.dtype);
  }
}

}  // namespace
}  // namespace ringway::bench
