#include "daemon/kernels/codec.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "tests/daemon/kernels/lossy_codecs.h"
#include "tests/daemon/kernels/reference.h"

namespace ringway::kernels {
namespace {

using Bytes = std::vector<unsigned char>;
using Floats = std::vector<float>;

constexpr std::size_t kCounts[] = {0, 1, 2, 7, 8, 15, 17, 31, 64, 100, 255, 256, 257, 511, 512, 513, 1024, 1027, 2305};
constexpr std::uint32_t kNan = 0x7fc00000;

std::uint32_t BitsOf(float x) {
  std::uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}

float FloatOf(std::uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

Floats FloatsOf(const Bytes& bytes) {
  Floats floats(bytes.size() / sizeof(float));
  if (!floats.empty()) std::memcpy(floats.data(), bytes.data(), bytes.size());
  return floats;
}

std::vector<std::uint32_t> BitsOf(const Floats& floats) {
  std::vector<std::uint32_t> bits;
  for (const float x : floats) bits.push_back(BitsOf(x));
  return bits;
}

Bytes EncodedOn(Isa isa, Codec codec, const Floats& values) {
  Bytes wire(EncodedBytes(codec, DType::kF32, values.size()));
  EncodeOn(isa, codec, DType::kF32, wire.data(), values.data(), values.size());
  return wire;
}

Floats DecodedOn(Isa isa, Codec codec, const Bytes& wire, std::size_t count) {
  Floats values(count);
  DecodeOn(isa, codec, DType::kF32, values.data(), wire.data(), count);
  return values;
}

// Values whose magnitudes make trouble, one temper a block.
enum class Temper { kOrdinary, kTiny, kHuge, kMixed, kNearFlush, kSubnormal, kGrid, kAnyBits, kCount };

Floats Block(Temper temper, std::size_t count, std::mt19937_64& random) {
  std::uniform_real_distribution<float> unit(-1, 1);
  const float top = std::fabs(unit(random)) * 2;
  Floats values(count);
  for (float& x : values) {
    const float u = unit(random);
    const std::uint32_t bits = static_cast<std::uint32_t>(random());
    switch (temper) {
      case Temper::kTiny:
        x = u * 0x1p-95f;
        break;
      case Temper::kHuge:
        x = random() % 8 == 0 ? std::copysign(FLT_MAX, u) : u * FLT_MAX;
        break;
      case Temper::kMixed:
        x = std::ldexp(u, static_cast<int>(random() % 240) - 120);
        break;
      case Temper::kNearFlush:
        x = u * 0x1.00001p-100f;
        break;
      case Temper::kSubnormal:
        x = FloatOf(bits & 0x807fffff);
        break;
      case Temper::kGrid:  // ties of the code, and exact multiples of the scale
        x = top * static_cast<float>(static_cast<int>(random() % 511) - 255) / 254.0f;
        break;
      case Temper::kAnyBits:
        x = FloatOf(bits);
        break;
      default:
        x = u * top;
    }
  }
  if (count > 0 && random() % 4 == 0) values[random() % count] = -0.0f;
  if (count > 0 && random() % 8 == 0) values[random() % count] = FloatOf(random() % 2 == 0 ? 0xffa00001 : 0xff800000);
  return values;
}

Floats Adversarial(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Floats values;
  while (values.size() < count) {
    const Temper temper = static_cast<Temper>(random() % static_cast<std::uint64_t>(Temper::kCount));
    const Floats block = Block(temper, std::min(kCodecBlockElements, count - values.size()), random);
    values.insert(values.end(), block.begin(), block.end());
  }
  return values;
}

class CodecTest : public testing::TestWithParam<Codec> {};

TEST_P(CodecTest, EncodingMatchesTheReferenceOnEveryInstructionSet) {
  for (const std::size_t count : kCounts) {
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
      const Floats values = Adversarial(count, seed * 4096 + count);
      const Bytes expected = reference::Encode(GetParam(), values);
      ASSERT_EQ(EncodedBytes(GetParam(), DType::kF32, count), expected.size());
      for (const Isa isa : reference::Isas()) {
        ASSERT_EQ(EncodedOn(isa, GetParam(), values), expected)
            << NameOf(isa) << " count " << count << " seed " << seed;
      }
    }
  }
}

TEST_P(CodecTest, EncodingWhatWasDecodedGivesTheSameCodes) {
  const Codec codec = GetParam();
  EXPECT_TRUE(rc::check([codec](std::uint64_t seed) {
    const Floats values = Adversarial(*rc::gen::inRange<std::size_t>(0, 1400), seed);
    for (const Isa isa : reference::Isas()) {
      const Bytes codes = EncodedOn(isa, codec, values);
      RC_ASSERT(EncodedOn(isa, codec, DecodedOn(isa, codec, codes, values.size())) == codes);
    }
  }));
}

// The scale is where the law is at risk: every exponent, and significands on both sides of each 16-bit step.
TEST(Int8Test, EveryScaleKeepsTheLaw) {
  std::mt19937_64 random(1);
  for (std::uint32_t exponent = 20; exponent < 255; ++exponent) {
    for (int i = 0; i < 300; ++i) {
      const std::uint32_t step = static_cast<std::uint32_t>(random() % 0x8000) << 8;
      const float scale_like = FloatOf((exponent << 23) | (step & 0x7fffff));
      const float m = i % 2 == 0 ? scale_like : std::nextafter(scale_like * 1.9921875f, 0.0f);
      if (!std::isfinite(m)) continue;
      const Floats values = {m, -m / 2, m / 3, -m / 254};
      const Bytes codes = EncodedOn(ActiveIsa(), Codec::kInt8, values);
      ASSERT_EQ(codes, reference::Encode(Codec::kInt8, values)) << std::hex << BitsOf(m);
      const Floats decoded = DecodedOn(ActiveIsa(), Codec::kInt8, codes, values.size());
      ASSERT_TRUE(std::isfinite(decoded[0])) << std::hex << BitsOf(m);
      ASSERT_EQ(EncodedOn(ActiveIsa(), Codec::kInt8, decoded), codes) << std::hex << BitsOf(m);
    }
  }
}

TEST_P(CodecTest, ErrorIsWithinWhatTheTableSays) {
  const auto& [relative_max, magnitude_min, magnitude_max] = InfoOf(GetParam()).error;
  const std::size_t block_elements = InfoOf(GetParam()).layout.block_elements;
  double worst = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const Floats values = Adversarial(4 * kCodecBlockElements, seed);
    const Floats decoded =
        DecodedOn(ActiveIsa(), GetParam(), EncodedOn(ActiveIsa(), GetParam(), values), values.size());
    for (std::size_t begin = 0; begin < values.size(); begin += block_elements) {
      double m = 0, error = 0;
      for (std::size_t i = begin; i < begin + block_elements; ++i) {
        m = std::isfinite(values[i]) ? std::max(m, std::fabs(static_cast<double>(values[i]))) : INFINITY;
        error = std::max(error, std::fabs(static_cast<double>(values[i]) - static_cast<double>(decoded[i])));
      }
      if (m >= magnitude_min && m <= magnitude_max) worst = std::max(worst, error / m);
    }
  }
  EXPECT_LE(worst, relative_max);
  EXPECT_GE(worst, relative_max * 0.99) << "the table promises less than the codec does";
}

// A codec that is a floating-point format: each of its codes. Those that are NaN encode to the one that an encoder
// sends.
void ExpectEveryCodeDecodesExactlyAndEncodesBack(Codec codec, DType format) {
  Bytes wire(2 * 65536);
  for (std::size_t i = 0; i < 65536; ++i) reference::SetElement(format, wire.data(), i, i);
  for (const Isa isa : reference::Isas()) {
    const Floats decoded = DecodedOn(isa, codec, wire, 65536);
    const Bytes again = EncodedOn(isa, codec, decoded), nan = EncodedOn(isa, codec, {NAN});
    for (std::uint32_t i = 0; i < 65536; ++i) {
      const auto expected = static_cast<float>(reference::ToNumber(format, i));
      if (std::isnan(expected)) {
        ASSERT_TRUE(std::isnan(decoded[i])) << i;
        ASSERT_EQ(reference::ElementAt(format, again.data(), i), reference::ElementAt(format, nan.data(), 0)) << i;
      } else {
        ASSERT_EQ(BitsOf(decoded[i]), BitsOf(expected)) << i;
        ASSERT_EQ(reference::ElementAt(format, again.data(), i), i);
      }
    }
  }
}

TEST(Bf16Test, EveryCodeDecodesExactlyAndEncodesBack) {
  ExpectEveryCodeDecodesExactlyAndEncodesBack(Codec::kBf16, DType::kBF16);
}

TEST_P(CodecTest, HostileBytesDecodeToTheSameValuesEverywhere) {
  const Codec codec = GetParam();
  EXPECT_TRUE(rc::check([codec](std::uint64_t seed) {
    const std::size_t count = *rc::gen::inRange<std::size_t>(0, 700);
    std::mt19937_64 random(seed);
    Bytes wire(EncodedBytes(codec, DType::kF32, count));
    for (unsigned char& byte : wire) byte = static_cast<unsigned char>(random() % 3 == 0 ? 0xff : random());
    const std::vector<std::uint32_t> expected = BitsOf(DecodedOn(Isa::kScalar, codec, wire, count));
    for (const Isa isa : reference::Isas()) RC_ASSERT(BitsOf(DecodedOn(isa, codec, wire, count)) == expected);
  }));
}

TEST(Int8Test, ScalesThatNoEncoderSendsDecodeToNan) {
  for (const std::uint32_t scale : {0x80000000u, 0xbf800000u, 0x7f800000u, 0xff800000u, 0x7f800001u, 0xffffffffu}) {
    Bytes wire(4 + 40, 0x80);
    std::memcpy(wire.data(), &scale, sizeof scale);
    for (const Isa isa : reference::Isas()) {
      EXPECT_EQ(BitsOf(DecodedOn(isa, Codec::kInt8, wire, 40)), std::vector<std::uint32_t>(40, kNan)) << scale;
    }
  }
}

TEST(Int8Test, ANonFiniteElementTurnsItsBlockAndNoOtherToNan) {
  for (const std::uint32_t bad : {0x7f800000u, 0xff800000u, 0x7f800001u, 0xffc00000u}) {
    Floats values(3 * kCodecBlockElements, 1.0f);
    values[kCodecBlockElements + 77] = FloatOf(bad);
    for (const Isa isa : reference::Isas()) {
      const Floats decoded = DecodedOn(isa, Codec::kInt8, EncodedOn(isa, Codec::kInt8, values), values.size());
      for (std::size_t i = 0; i < values.size(); ++i) {
        ASSERT_EQ(BitsOf(decoded[i]) == kNan, i / kCodecBlockElements == 1) << i;
      }
    }
  }
}

struct Golden {
  std::vector<std::uint32_t> values;
  std::uint32_t scale;
  std::vector<int> codes;
};

// Computed apart from this code, with exact fractions.
const Golden kInt8Golden[] = {
    {{0x3f800000, 0xbf000000, 0x00000000, 0x80000000}, 0x3c010300, {127, -63, 0, 0}},
    {{0x42fe0000, 0x3f000000, 0x3fc00000, 0xc0200000}, 0x3f800000, {127, 0, 2, -2}},  // ties go to even
    {{0x3dcccccd, 0x3ca3d70a, 0xbc23d70a}, 0x3a4e6a00, {127, 25, -13}},
    {{0x40490fdb, 0xc02df854, 0x3f9e0652}, 0x3ccaa600, {127, -110, 50}},
    {{0x7f7fffff, 0xff7fffff, 0x7f000000}, 0x7c010200, {127, -127, 64}},  // the largest scale
    {{0x0d800000, 0x8d000000, 0x00000001}, 0x0a010300, {127, -63, 0}},    // the least m that is kept
    {{0x0d7fffff, 0x8d000000, 0x00000001}, 0x00000000, {0, 0, 0}},        // and the greatest that is not
    {{0x3f800000, 0x7f800000}, 0x7fc00000, {0, 0}},
    {{0x80000000}, 0x00000000, {0}},
};

TEST(Int8Test, GoldenBlocksHoldOnEveryInstructionSet) {
  for (const Golden& golden : kInt8Golden) {
    Floats values;
    for (const std::uint32_t bits : golden.values) values.push_back(FloatOf(bits));
    Bytes expected(4);
    std::memcpy(expected.data(), &golden.scale, sizeof golden.scale);
    for (const int code : golden.codes) expected.push_back(static_cast<unsigned char>(code));
    for (const Isa isa : reference::Isas()) EXPECT_EQ(EncodedOn(isa, Codec::kInt8, values), expected) << NameOf(isa);
  }
}

void ExpectGoldenRoundings(Codec codec, const std::vector<std::pair<std::uint32_t, std::uint16_t>>& golden) {
  for (const auto& [value, code] : golden) {
    const Floats values(19, FloatOf(value));
    for (const Isa isa : reference::Isas()) {
      const Bytes wire = EncodedOn(isa, codec, values);
      for (std::size_t i = 0; i < values.size(); ++i) {
        ASSERT_EQ(reference::ElementAt(DType::kU16, wire.data(), i), code) << std::hex << value << ' ' << NameOf(isa);
      }
    }
  }
}

TEST(Bf16Test, GoldenRoundingsHoldOnEveryInstructionSet) {
  ExpectGoldenRoundings(Codec::kBf16, {{0x3f800000, 0x3f80},
                                       {0x3f808000, 0x3f80},
                                       {0x3f808001, 0x3f81},
                                       {0x3f818000, 0x3f82},
                                       {0x3fffffff, 0x4000},
                                       {0x7f7f7fff, 0x7f7f},
                                       {0x7f7f8000, 0x7f80},
                                       {0xff7fffff, 0xff80},
                                       {0x7f800000, 0x7f80},
                                       {0x7f800001, 0x7fc0},
                                       {0xffffffff, 0x7fc0},
                                       {0x00000001, 0x0000},
                                       {0x80008001, 0x8001},
                                       {0x00018000, 0x0002},
                                       {0x80000000, 0x8000}});
}

TEST(F16Test, EveryCodeDecodesExactlyAndEncodesBack) {
  ExpectEveryCodeDecodesExactlyAndEncodesBack(Codec::kF16, DType::kF16);
}

// Those of finite results are what Python's struct module packs.
TEST(F16Test, GoldenRoundingsHoldOnEveryInstructionSet) {
  ExpectGoldenRoundings(
      Codec::kF16,
      {{0x3f800000, 0x3c00}, {0x3f801000, 0x3c00}, {0x3f801001, 0x3c01}, {0x3f803000, 0x3c02}, {0x3fffffff, 0x4000},
       {0x3eaaaaab, 0x3555}, {0xc0490fdb, 0xc248}, {0x477fe000, 0x7bff}, {0x477fefff, 0x7bff}, {0x477ff000, 0x7c00},
       {0xff7fffff, 0xfc00}, {0x7f800000, 0x7c00}, {0xff800000, 0xfc00}, {0x7f800001, 0x7e00}, {0xffffffff, 0x7e00},
       {0x38800000, 0x0400}, {0x387fffff, 0x0400}, {0x387fc000, 0x03ff}, {0x387fe000, 0x0400}, {0xb387ffff, 0x8001},
       {0x33800000, 0x0001}, {0x33000000, 0x0000}, {0x33000001, 0x0001}, {0x33c00000, 0x0002}, {0x80000001, 0x8000},
       {0x80000000, 0x8000}});
}

TEST_P(CodecTest, RequantizeIsDecodeOfEncode) {
  for (const std::size_t count : kCounts) {
    Floats values = Adversarial(count, count);
    const Floats expected = DecodedOn(Isa::kScalar, GetParam(), EncodedOn(Isa::kScalar, GetParam(), values), count);
    Requantize(GetParam(), DType::kF32, values.data(), count);
    ASSERT_EQ(BitsOf(values), BitsOf(expected)) << count;
  }
}

TEST_P(CodecTest, DecodeReduceIsReduceOfDecodeInPlaceAndAtAnyAlignment) {
  for (const std::size_t count : kCounts) {
    const Floats a = FloatsOf(reference::Mixture(DType::kF32, count, count));
    const Bytes wire = EncodedOn(Isa::kScalar, GetParam(), Adversarial(count, count + 1));
    const Floats b = DecodedOn(Isa::kScalar, GetParam(), wire, count);
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAvg, ReduceOp::kProd, ReduceOp::kMin, ReduceOp::kMax}) {
      Floats expected(count), in_place = a;
      ReduceOn(Isa::kScalar, DType::kF32, op, expected.data(), a.data(), b.data(), count);
      Bytes unaligned(1 + wire.size());
      std::copy(wire.begin(), wire.end(), unaligned.begin() + 1);
      DecodeReduce(GetParam(), DType::kF32, op, in_place.data(), in_place.data(), unaligned.data() + 1, count);
      ASSERT_EQ(BitsOf(in_place), BitsOf(expected)) << NameOf(op) << " count " << count;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Codecs, CodecTest, testing::ValuesIn(LossyCodecs()),
                         [](const testing::TestParamInfo<Codec>& test) { return std::string(NameOf(test.param)); });

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
}

}  // namespace
}  // namespace ringway::kernels
