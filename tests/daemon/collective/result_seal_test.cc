#include "daemon/collective/result_seal.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

namespace ringway::collective {
namespace {

Descriptor SealedBytes(std::uint64_t count) {
  return {OpKind::kAllReduce, DType::kU8, ReduceOp::kSum, Codec::kNone, Algorithm::kRing, count};
}

// Ten segments of a hundred bytes.
struct Sealed {
  explicit Sealed(bool known = true) {
    std::vector<ResultSeal::Segment> segments;
    for (std::size_t i = 0; i < output.size(); ++i) output[i] = static_cast<std::byte>(i * 13);
    for (std::uint64_t begin = 0; begin < output.size(); begin += 100) {
      const std::uint64_t hash = WireHash(SealedBytes(1000), output.data() + begin, 100);
      segments.push_back({{begin, 100}, known ? hash : 0});
    }
    seal = ResultSeal(SealedBytes(1000), std::move(segments));
  }
  std::vector<std::byte> output = std::vector<std::byte>(1000);
  ResultSeal seal;
};

TEST(ResultSealTest, CopyIsTheRangeWhereverTheSegmentsAreCut) {
  Sealed sealed;
  for (const Range range : {Range{0, 1000}, Range{0, 100}, Range{50, 100}, Range{199, 2}, Range{950, 50}}) {
    const auto copy = sealed.seal.Copy(sealed.output.data(), range);
    ASSERT_TRUE(copy.has_value());
    ASSERT_EQ(copy->size(), range.count);
    EXPECT_TRUE(std::equal(copy->begin(), copy->end(), sealed.output.data() + range.begin));
  }
}

TEST(ResultSealTest, BytesThatWereWrittenToAreInNoCopy) {
  Sealed sealed;
  sealed.output[150] ^= std::byte{1};
  EXPECT_FALSE(sealed.seal.Copy(sealed.output.data(), {0, 1000}).has_value());
  EXPECT_FALSE(sealed.seal.Copy(sealed.output.data(), {199, 2}).has_value()) << "of the same segment";
  EXPECT_TRUE(sealed.seal.Copy(sealed.output.data(), {200, 800}).has_value());
}

TEST(ResultSealTest, SegmentWithoutAHashIsSealedByItsFirstCopy) {
  Sealed sealed(/*known=*/false);
  EXPECT_TRUE(sealed.seal.Copy(sealed.output.data(), {100, 100}).has_value());
  sealed.output[150] ^= std::byte{1};
  EXPECT_FALSE(sealed.seal.Copy(sealed.output.data(), {100, 100}).has_value());
}

TEST(ResultSealTest, QuantizedValuesAreSealedByTheirCodes) {
  std::vector<float> values(512, 1.5F);
  const Descriptor bf16{OpKind::kAllReduce, DType::kF32, ReduceOp::kSum, Codec::kBf16, Algorithm::kRing, 512};
  const auto* const bytes = reinterpret_cast<const std::byte*>(values.data());
  ResultSeal seal(bf16, {{{0, 512}, WireHash(bf16, bytes, 512)}});
  const auto copy = seal.Copy(bytes, {256, 256});
  ASSERT_TRUE(copy.has_value());
  EXPECT_EQ(copy->size(), 256 * sizeof(float));
  values[300] = 2;
  EXPECT_FALSE(seal.Copy(bytes, {0, 256}).has_value());
}

}  // namespace
}  // namespace ringway::collective
