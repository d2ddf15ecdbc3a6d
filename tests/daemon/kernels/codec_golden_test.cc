// Golden vectors: of blocks from golden_codecs.py, which uses NumPy and ml_dtypes and none of our code; and each code
// of the codecs that are floating-point formats.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "daemon/kernels/codec.h"
#include "tests/daemon/kernels/adversarial.h"
#include "tests/daemon/kernels/reference.h"

namespace ringway::kernels {
namespace {

using Bytes = std::vector<unsigned char>;

struct GoldenBlock {
  const char* codec;
  std::uint16_t block;
  DType dtype;
  std::vector<std::uint32_t> values;   // bits
  const char* wire;                    // hexadecimal
  std::vector<std::uint32_t> decoded;  // bits
};

#include "tests/daemon/kernels/golden_codecs.inc"

Codec Named(const std::string& name) {
  for (const CodecInfo& info : kCodecs) {
    if (info.name == name) return info.codec;
  }
  ADD_FAILURE() << "no codec is called " << name;
  return Codec::kNone;
}

Bytes FromHex(const std::string& text) {
  Bytes bytes;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2) {
    bytes.push_back(static_cast<unsigned char>(std::stoi(text.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

Bytes FromBits(DType dtype, const std::vector<std::uint32_t>& bits) {
  Bytes elements(bits.size() * SizeOf(dtype));
  for (std::size_t i = 0; i < bits.size(); ++i) reference::SetElement(dtype, elements.data(), i, bits[i]);
  return elements;
}

TEST(GoldenTest, BlocksHoldOnEveryInstructionSet) {
  std::size_t seen[kCodecCount] = {};
  for (const GoldenBlock& golden : kGoldenBlocks) {
    const Codec codec = Named(golden.codec);
    const Encoding encoding(codec, golden.block);
    const Bytes values = FromBits(golden.dtype, golden.values), expected = FromHex(golden.wire);
    ASSERT_EQ(expected.size(), EncodedBytes(encoding, golden.dtype, golden.values.size())) << golden.codec;
    for (const Isa isa : reference::Isas()) {
      Bytes wire(expected.size()), decoded(values.size());
      EncodeOn(isa, encoding, golden.dtype, wire.data(), values.data(), golden.values.size());
      EXPECT_EQ(wire, expected) << golden.codec << ' ' << NameOf(golden.dtype) << ' ' << NameOf(isa);
      DecodeOn(isa, encoding, golden.dtype, decoded.data(), expected.data(), golden.values.size());
      EXPECT_EQ(decoded, FromBits(golden.dtype, golden.decoded)) << golden.codec << ' ' << NameOf(golden.dtype);
    }
    ++seen[static_cast<std::uint8_t>(codec)];
  }
  for (const CodecInfo& info : kCodecs) {
    if (info.codec != Codec::kNone) {
      EXPECT_GT(seen[static_cast<std::uint8_t>(info.codec)], 0u) << info.name;
    }
  }
}

// A codec that is a floating-point format: each of its codes. Those that are NaN encode to the one that an encoder
// sends.
void ExpectEveryCodeDecodesExactlyAndEncodesBack(Codec codec, DType format) {
  Bytes wire(2 * 65536);
  for (std::size_t i = 0; i < 65536; ++i) reference::SetElement(format, wire.data(), i, i);
  for (const Isa isa : reference::Isas()) {
    std::vector<float> decoded(65536);
    DecodeOn(isa, codec, DType::kF32, decoded.data(), wire.data(), decoded.size());
    Bytes again(wire.size()), nan(2);
    EncodeOn(isa, codec, DType::kF32, again.data(), decoded.data(), decoded.size());
    const float not_a_number = NAN;
    EncodeOn(isa, codec, DType::kF32, nan.data(), &not_a_number, 1);
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

TEST(GoldenTest, EveryCodeOfTheFormatsDecodesExactlyAndEncodesBack) {
  ExpectEveryCodeDecodesExactlyAndEncodesBack(Codec::kBf16, DType::kBF16);
  ExpectEveryCodeDecodesExactlyAndEncodesBack(Codec::kF16, DType::kF16);
}

// The scale is where the law is at risk: every exponent, and significands on both sides of each 16-bit step.
TEST(GoldenTest, EveryScaleOfIntegersKeepsTheLaw) {
  for (const Codec codec : {Codec::kInt8, Codec::kInt4}) {
    std::uint64_t state = 1;
    for (std::uint32_t exponent = 27; exponent < 255; ++exponent) {
      for (int i = 0; i < 300; ++i) {
        state = state * 6364136223846793005U + 1442695040888963407U;
        const std::uint32_t step = static_cast<std::uint32_t>(state >> 48 & 0x7fff) << 8;
        const float scale_like = FloatOf((exponent << 23) | step);
        const float m = i % 2 == 0 ? scale_like : std::nextafter(scale_like * 1.9921875f, 0.0f);
        if (!std::isfinite(m)) continue;
        const std::vector<float> values = {m, -m / 2, m / 3, -m / 254};
        Bytes codes(EncodedBytes(codec, DType::kF32, 4)), again(codes.size());
        Encode(codec, DType::kF32, codes.data(), values.data(), 4);
        std::vector<float> decoded(4);
        Decode(codec, DType::kF32, decoded.data(), codes.data(), 4);
        ASSERT_TRUE(std::isfinite(decoded[0])) << std::hex << BitsOf(m);
        Encode(codec, DType::kF32, again.data(), decoded.data(), 4);
        ASSERT_EQ(again, codes) << std::hex << BitsOf(m);
      }
    }
  }
}

void ExpectGoldenRoundings(Codec codec, const std::vector<std::pair<std::uint32_t, std::uint16_t>>& golden) {
  for (const auto& [value, code] : golden) {
    const std::vector<float> values(19, FloatOf(value));
    for (const Isa isa : reference::Isas()) {
      Bytes wire(EncodedBytes(codec, DType::kF32, values.size()));
      EncodeOn(isa, codec, DType::kF32, wire.data(), values.data(), values.size());
      for (std::size_t i = 0; i < values.size(); ++i) {
        ASSERT_EQ(reference::ElementAt(DType::kU16, wire.data(), i), code) << std::hex << value << ' ' << NameOf(isa);
      }
    }
  }
}

TEST(GoldenTest, RoundingsToBf16HoldOnEveryInstructionSet) {
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

// Those of finite results are what Python's struct module packs.
TEST(GoldenTest, RoundingsToF16HoldOnEveryInstructionSet) {
  ExpectGoldenRoundings(
      Codec::kF16,
      {{0x3f800000, 0x3c00}, {0x3f801000, 0x3c00}, {0x3f801001, 0x3c01}, {0x3f803000, 0x3c02}, {0x3fffffff, 0x4000},
       {0x3eaaaaab, 0x3555}, {0xc0490fdb, 0xc248}, {0x477fe000, 0x7bff}, {0x477fefff, 0x7bff}, {0x477ff000, 0x7c00},
       {0xff7fffff, 0xfc00}, {0x7f800000, 0x7c00}, {0xff800000, 0xfc00}, {0x7f800001, 0x7e00}, {0xffffffff, 0x7e00},
       {0x38800000, 0x0400}, {0x387fffff, 0x0400}, {0x387fc000, 0x03ff}, {0x387fe000, 0x0400}, {0xb387ffff, 0x8001},
       {0x33800000, 0x0001}, {0x33000000, 0x0000}, {0x33000001, 0x0001}, {0x33c00000, 0x0002}, {0x80000001, 0x8000},
       {0x80000000, 0x8000}});
}

}  // namespace
}  // namespace ringway::kernels
