// The laws of all codecs, over every dtype that they take and every block size.
#include "daemon/kernels/codec.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "tests/daemon/kernels/adversarial.h"
#include "tests/daemon/kernels/lossy_codecs.h"
#include "tests/daemon/kernels/reference.h"

namespace ringway::kernels {
namespace {

using Bytes = std::vector<unsigned char>;

constexpr std::size_t kCounts[] = {0,   1,   2,   7,   8,   15,  17,  31,   64,   100,
                                   255, 256, 257, 511, 512, 513, 999, 1024, 1027, 2305};

class CodecTest : public testing::TestWithParam<std::tuple<Codec, DType>> {
 protected:
  CodecTest() : codec_(std::get<0>(GetParam())), dtype_(std::get<1>(GetParam())) {}

  Bytes EncodedOn(Isa isa, const Encoding& encoding, const Bytes& values, const Dither* dither = nullptr) const {
    const std::size_t count = values.size() / SizeOf(dtype_);
    Bytes wire(EncodedBytes(encoding, dtype_, count), 0xa5);
    EncodeOn(isa, encoding, dtype_, wire.data(), values.data(), count, dither);
    return wire;
  }
  Bytes DecodedOn(Isa isa, const Encoding& encoding, const Bytes& wire, std::size_t count) const {
    Bytes values(count * SizeOf(dtype_));
    DecodeOn(isa, encoding, dtype_, values.data(), wire.data(), count);
    return values;
  }

  const Codec codec_;
  const DType dtype_;
};

TEST_P(CodecTest, EncodingMatchesTheReferenceOnEveryInstructionSet) {
  for (const Encoding& encoding : EncodingsOf(codec_)) {
    for (const std::size_t count : kCounts) {
      for (std::uint64_t seed = 0; seed < 12; ++seed) {
        const Bytes values = Adversarial(dtype_, count, seed * 4096 + count + encoding.block);
        const Bytes expected = reference::Encode(encoding, dtype_, values);
        ASSERT_EQ(EncodedBytes(encoding, dtype_, count), expected.size());
        for (const Isa isa : reference::Isas()) {
          ASSERT_EQ(EncodedOn(isa, encoding, values), expected)
              << NameOf(isa) << " block " << encoding.block << " count " << count << " seed " << seed;
        }
      }
    }
  }
}

TEST_P(CodecTest, EncodingWhatWasDecodedGivesTheSameCodes) {
  EXPECT_TRUE(rc::check([this](std::uint64_t seed) {
    const std::size_t count = *rc::gen::inRange<std::size_t>(0, 2400);
    const Bytes values = Adversarial(dtype_, count, seed);
    for (const Encoding& encoding : EncodingsOf(codec_)) {
      for (const Isa isa : reference::Isas()) {
        const Bytes codes = EncodedOn(isa, encoding, values);
        RC_ASSERT(EncodedOn(isa, encoding, DecodedOn(isa, encoding, codes, count)) == codes);
      }
    }
  }));
}

TEST_P(CodecTest, StochasticCodesKeepTheLawAndAreTheSameOnEveryInstructionSet) {
  EXPECT_TRUE(rc::check([this](std::uint64_t seed) {
    const std::size_t count = *rc::gen::inRange<std::size_t>(0, 2400);
    const Bytes values = Adversarial(dtype_, count, seed);
    const Dither dither{seed * 3, seed % 7 * kBlockMax};
    for (Encoding encoding : EncodingsOf(codec_)) {
      encoding.rounding = Rounding::kStochastic;
      const Bytes expected = EncodedOn(Isa::kScalar, encoding, values, &dither);
      for (const Isa isa : reference::Isas()) {
        RC_ASSERT(EncodedOn(isa, encoding, values, &dither) == expected);
        // With rounding to nearest, a value that was rounded at random is exact.
        RC_ASSERT(EncodedOn(isa, encoding, DecodedOn(isa, encoding, expected, count)) == expected);
      }
    }
  }));
}

TEST_P(CodecTest, StochasticRoundingHasNoBiasAndRoundsToTheNeighbours) {
  constexpr std::size_t kCount = 512;
  std::vector<float> floats(kCount);
  std::mt19937_64 random(7);
  for (float& x : floats) x = std::uniform_real_distribution<float>(-1, 1)(random);
  floats[0] = 1.0f;
  floats[1] = -1.0f;
  const Bytes values = ElementsOf(dtype_, floats);
  floats = FloatsOf(dtype_, values);
  Encoding encoding(codec_);
  encoding.rounding = Rounding::kStochastic;
  constexpr int kTrials = 400;
  std::vector<double> mean(kCount), least(kCount, 9), greatest(kCount, -9);
  double step = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    const Dither dither{static_cast<std::uint64_t>(trial), 0};
    const Bytes wire = EncodedOn(ActiveIsa(), encoding, values, &dither);
    const std::vector<float> decoded = FloatsOf(dtype_, DecodedOn(ActiveIsa(), encoding, wire, kCount));
    for (std::size_t i = 0; i < kCount; ++i) {
      const double x = static_cast<double>(decoded[i]);
      mean[i] += x / kTrials;
      least[i] = std::min(least[i], x);
      greatest[i] = std::max(greatest[i], x);
    }
  }
  double drift = 0;
  for (std::size_t i = 0; i < kCount; ++i) {
    step = std::max(step, greatest[i] - least[i]);
    drift += mean[i] - static_cast<double>(floats[i]);
  }
  const bool rounds = InfoOf(codec_).layout.code_bits < 16 || dtype_ == DType::kF32;
  if (!rounds) {  // as many bits as the elements have
    EXPECT_LE(step, 2 * InfoOf(codec_).error.relative_max);
    return;
  }
  EXPECT_GT(step, 0.0);
  const double last_place = dtype_ == DType::kF32 ? 0 : dtype_ == DType::kF16 ? 0x1p-10 : 0x1p-7;
  EXPECT_LE(step, 1.01 * InfoOf(codec_).error.at_random_max + last_place);
  // The mean of 512 * 400 draws of a step's variance at most, five deviations of it.
  EXPECT_LE(std::fabs(drift / kCount), 5 * step / std::sqrt(512.0 * kTrials) + last_place / 16);
}

TEST_P(CodecTest, DitherGoesByThePositionInTheBuffer) {
  const Bytes values = Adversarial(dtype_, 3 * kBlockMax, 5);
  Encoding encoding(codec_);
  encoding.rounding = Rounding::kStochastic;
  const Dither whole{77, 4 * kBlockMax}, later{77, 5 * kBlockMax};
  const Bytes all = EncodedOn(ActiveIsa(), encoding, values, &whole);
  const Bytes rest(values.begin() + static_cast<std::ptrdiff_t>(kBlockMax * SizeOf(dtype_)), values.end());
  const Bytes tail = EncodedOn(ActiveIsa(), encoding, rest, &later);
  EXPECT_TRUE(std::equal(tail.rbegin(), tail.rend(), all.rbegin()));
}

TEST_P(CodecTest, HostileBytesDecodeToTheSameValuesEverywhere) {
  EXPECT_TRUE(rc::check([this](std::uint64_t seed) {
    const std::size_t count = *rc::gen::inRange<std::size_t>(0, 1400);
    std::mt19937_64 random(seed);
    for (const Encoding& encoding : EncodingsOf(codec_)) {
      Bytes wire(EncodedBytes(encoding, dtype_, count));
      for (unsigned char& byte : wire) byte = static_cast<unsigned char>(random() % 3 == 0 ? 0xff : random());
      const Bytes expected = DecodedOn(Isa::kScalar, encoding, wire, count);
      for (const Isa isa : reference::Isas()) RC_ASSERT(DecodedOn(isa, encoding, wire, count) == expected);
    }
  }));
}

TEST_P(CodecTest, RequantizeIsDecodeOfEncode) {
  for (Encoding encoding : EncodingsOf(codec_)) {
    for (const Rounding rounding : {Rounding::kNearestEven, Rounding::kStochastic}) {
      encoding.rounding = rounding;
      for (const std::size_t count : kCounts) {
        Bytes values = Adversarial(dtype_, count, count);
        const Dither dither{count, 2 * kBlockMax};
        const Bytes expected =
            DecodedOn(Isa::kScalar, encoding, EncodedOn(Isa::kScalar, encoding, values, &dither), count);
        Requantize(encoding, dtype_, values.data(), count, &dither);
        ASSERT_EQ(values, expected) << count;
      }
    }
  }
}

TEST_P(CodecTest, DecodeReduceIsReduceOfDecodeInPlaceAndAtAnyAlignment) {
  for (const Encoding& encoding : EncodingsOf(codec_)) {
    for (const std::size_t count : kCounts) {
      const Bytes a = reference::Mixture(dtype_, count, count);
      const Bytes wire = EncodedOn(Isa::kScalar, encoding, Adversarial(dtype_, count, count + 1));
      const Bytes b = DecodedOn(Isa::kScalar, encoding, wire, count);
      for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAvg, ReduceOp::kProd, ReduceOp::kMin, ReduceOp::kMax}) {
        Bytes expected(a.size()), in_place = a;
        ReduceOn(Isa::kScalar, dtype_, op, expected.data(), a.data(), b.data(), count);
        Bytes unaligned(1 + wire.size());
        std::copy(wire.begin(), wire.end(), unaligned.begin() + 1);
        DecodeReduce(encoding, dtype_, op, in_place.data(), in_place.data(), unaligned.data() + 1, count);
        ASSERT_EQ(in_place, expected) << NameOf(op) << " count " << count << " block " << encoding.block;
      }
    }
  }
}

std::vector<std::tuple<Codec, DType>> CodecsAndDTypes() {
  std::vector<std::tuple<Codec, DType>> all;
  for (const Codec codec : LossyCodecs()) {
    for (const DType dtype : {DType::kF16, DType::kBF16, DType::kF32}) {
      if (IsSupported(dtype, ReduceOp::kSum, codec)) all.emplace_back(codec, dtype);
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Codecs, CodecTest, testing::ValuesIn(CodecsAndDTypes()), [](const auto& test) {
  return std::string(NameOf(std::get<0>(test.param))) + "_" + NameOf(std::get<1>(test.param));
});

double WorstError(Codec codec, std::uint64_t seed) {
  const auto& error_max = InfoOf(codec).error;
  const Encoding encoding(codec);
  const std::size_t block_elements = std::max<std::size_t>(1, encoding.block);
  const std::vector<float> values = FloatsOf(DType::kF32, Adversarial(DType::kF32, 4 * kBlockDefault, seed));
  Bytes wire(EncodedBytes(encoding, DType::kF32, values.size()));
  std::vector<float> decoded(values.size());
  Encode(encoding, DType::kF32, wire.data(), values.data(), values.size());
  Decode(encoding, DType::kF32, decoded.data(), wire.data(), values.size());
  double worst = 0;
  for (std::size_t begin = 0; begin < values.size(); begin += block_elements) {
    double m = 0, error = 0;
    for (std::size_t i = begin; i < begin + block_elements; ++i) {
      m = std::isfinite(values[i]) ? std::max(m, std::fabs(static_cast<double>(values[i]))) : INFINITY;
      error = std::max(error, std::fabs(static_cast<double>(values[i]) - static_cast<double>(decoded[i])));
    }
    if (m >= error_max.magnitude_min && m <= error_max.magnitude_max) worst = std::max(worst, error / m);
  }
  return worst;
}

TEST(CodecErrorTest, IsWithinWhatTheTableSays) {
  for (const Codec codec : LossyCodecs()) {
    double worst = 0;
    for (std::uint64_t seed = 0; seed < 300; ++seed) worst = std::max(worst, WorstError(codec, seed));
    EXPECT_LE(worst, InfoOf(codec).error.relative_max) << NameOf(codec);
    EXPECT_GE(worst, InfoOf(codec).error.relative_max * 0.98)
        << NameOf(codec) << ": the table promises less than it does";
  }
}

// Blocks in which a dither is likely to carry a code past its range: next to the ends, and where the scale is capped.
TEST(CodecErrorTest, AtRandomNoCodeLeavesTheRangeOfItsBlock) {
  const std::vector<std::vector<float>> blocks = {{-1.349F, 4.57e-10F, 1e-8F},
                                                  {FLT_MAX, 0x1.fffffcp127F, -0x1.fffffcp127F},
                                                  {258, 257, -257, 129},
                                                  {1, std::nextafter(1.0F, 0.0F), -1, 0}};
  for (const Codec codec : LossyCodecs()) {
    const Encoding encoding(codec, Encoding(codec).block, Rounding::kStochastic);
    for (const std::vector<float>& block : blocks) {
      double m = 0;
      for (const float x : block) m = std::max(m, std::fabs(static_cast<double>(x)));
      const bool within = m >= InfoOf(codec).error.magnitude_min && m <= InfoOf(codec).error.magnitude_max;
      std::vector<float> decoded(block.size());
      Bytes wire(EncodedBytes(encoding, DType::kF32, block.size())), again(wire.size());
      for (std::uint64_t seed = 0; seed < 3000; ++seed) {
        const Dither dither{seed, 0};
        Encode(encoding, DType::kF32, wire.data(), block.data(), block.size(), &dither);
        Decode(encoding, DType::kF32, decoded.data(), wire.data(), block.size());
        Encode(encoding, DType::kF32, again.data(), decoded.data(), block.size());
        ASSERT_EQ(again, wire) << NameOf(codec) << ' ' << block[0] << " seed " << seed;
        for (std::size_t i = 0; within && i < block.size(); ++i) {
          const double error = std::fabs(static_cast<double>(decoded[i]) - static_cast<double>(block[i]));
          ASSERT_LE(error, ErrorOf(encoding) * m) << NameOf(codec) << ' ' << block[i] << " seed " << seed;
        }
      }
    }
  }
}

TEST(CodecErrorTest, ANonFiniteElementTurnsItsBlockAndNoOtherToNan) {
  for (const Codec codec : LossyCodecs()) {
    for (const Encoding& encoding : EncodingsOf(codec)) {
      for (const std::uint32_t bad : {0x7f800000u, 0xff800000u, 0x7fc00001u, 0xffc00000u}) {
        if (!HasBlocks(codec)) continue;
        std::vector<float> values(3 * encoding.block, 1.0f), decoded(values.size());
        values[encoding.block + encoding.block / 2 - 3] = FloatOf(bad);
        Bytes wire(EncodedBytes(encoding, DType::kF32, values.size()));
        for (const Isa isa : reference::Isas()) {
          EncodeOn(isa, encoding, DType::kF32, wire.data(), values.data(), values.size());
          DecodeOn(isa, encoding, DType::kF32, decoded.data(), wire.data(), values.size());
          for (std::size_t i = 0; i < values.size(); ++i) {
            ASSERT_EQ(std::isnan(decoded[i]), i / encoding.block == 1)
                << NameOf(codec) << ' ' << i << ' ' << encoding.block;
          }
        }
      }
    }
  }
}

TEST(NoneCodecTest, ElementsOfEveryDtypeTravelAsTheyAre) {
  for (std::uint8_t d = 0; d < kDTypeCount; ++d) {
    const DType dtype = static_cast<DType>(d);
    const Bytes values = reference::Mixture(dtype, 300, d), b = reference::Mixture(dtype, 300, d + 1u);
    Bytes wire(EncodedBytes(Codec::kNone, dtype, 300)), back(values.size()), sum(values.size()),
        expected(values.size());
    Encode(Codec::kNone, dtype, wire.data(), values.data(), 300);
    Decode(Codec::kNone, dtype, back.data(), wire.data(), 300);
    EXPECT_EQ(wire, values);
    EXPECT_EQ(back, values);
    Requantize(Codec::kNone, dtype, back.data(), 300);
    EXPECT_EQ(back, values);
    DecodeReduce(Codec::kNone, dtype, ReduceOp::kSum, sum.data(), b.data(), wire.data(), 300);
    Reduce(dtype, ReduceOp::kSum, expected.data(), b.data(), values.data(), 300);
    EXPECT_EQ(sum, expected);
  }
}

TEST(CodecDeathTest, CodecsOfOtherDtypesAreBrokenInvariants) {
  unsigned char bytes[64] = {};
  EXPECT_DEATH(Encode(Codec::kInt8, DType::kF64, bytes, bytes + 32, 1), "invariant broken");
  EXPECT_DEATH(Encode(Encoding(Codec::kInt8, 48), DType::kF32, bytes, bytes + 32, 1), "invariant broken");
}

}  // namespace
}  // namespace ringway::kernels
