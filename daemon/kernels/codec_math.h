// The arithmetic of the codecs, one element at a time: the one definition, which every instruction set compiles, and
// nvcc, too. codec.h says it in words.
//
// The rules of elements.h hold here: no branches on values, no calls into libraries, internal linkage.
#pragma once

#include <ringway/types.h>

#include <cstddef>
#include <cstdint>

#include "daemon/kernels/elements.h"

namespace ringway::kernels {
namespace {

inline constexpr std::uint32_t kInfinityBits = 0x7f800000;
inline constexpr std::uint32_t kNanBits = 0x7fc00000;
inline constexpr std::uint32_t kMagnitudeBits = 0x7fffffff;
inline constexpr float kFlushBelow = 0x1p-100f;  // a block whose magnitudes, or steps, are below is flushed
inline constexpr float kRounder = 0x1.8p23f;     // added, it rounds to nearest even, the integer in the low bits

// Bits that order like the numbers do, -0 just below +0; its own inverse.
RINGWAY_KERNEL inline std::int32_t OrderOf(std::int32_t bits) {
  return bits ^ (bits >> 31 & static_cast<std::int32_t>(kMagnitudeBits));
}

// ---------------------------------------------------------------------------------------------- stochastic rounding

// 32 random bits for an element. `block`: of the block that it is in.
RINGWAY_KERNEL inline std::uint32_t RandomBits(std::uint32_t block, std::uint32_t i) {
  std::uint32_t h = block + i * 0x9e3779b9U;
  h = (h ^ (h >> 16)) * 0x85ebca6bU;
  h = (h ^ (h >> 13)) * 0xc2b2ae35U;
  return h ^ (h >> 16);
}

// 32 random bits for a block, by where in the buffer it begins (SplitMix64).
RINGWAY_KERNEL inline std::uint32_t SeedOf(std::uint64_t seed, std::uint64_t first) {
  std::uint64_t z = seed + first * 0x9e3779b97f4a7c15U;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
  return static_cast<std::uint32_t>((z ^ (z >> 31)) >> 32);
}

// Returns a number in (-1/2, 1/2), an odd multiple of 2^-16: added to an integer below 256 in magnitude it is exact and
// changes nothing when the sum is rounded to nearest.
RINGWAY_KERNEL inline float DitherOf(std::uint32_t random) {
  return static_cast<float>(static_cast<std::int32_t>(random >> 17) * 2 + 1) * 0x1p-16f - 0.5f;
}

// The term that is added to a number, in units of the code's step, before it is rounded to nearest.
struct ToNearest {
  static constexpr bool kIsRandom = false;
  RINGWAY_KERNEL float Dither(std::size_t) const { return 0.0f; }
  // Returns the term that is added to a significand of which `shift` bits are dropped.
  RINGWAY_KERNEL std::uint32_t Carry(std::size_t, std::uint32_t bits, int shift) const {
    return (1U << (shift - 1)) - 1 + ((bits >> shift) & 1);
  }
};

struct Stochastic {
  static constexpr bool kIsRandom = true;
  std::uint32_t block;
  RINGWAY_KERNEL float Dither(std::size_t i) const {
    return DitherOf(RandomBits(block, static_cast<std::uint32_t>(i)));
  }
  RINGWAY_KERNEL std::uint32_t Carry(std::size_t i, std::uint32_t, int shift) const {
    return RandomBits(block, static_cast<std::uint32_t>(i)) & ((1U << shift) - 1);
  }
};

// ---------------------------------------------------------------------------------------------- codecs of integers

// m / kTop rounded up to 16 significant bits. In double the quotient of a 24-bit number by so small a number never
// rounds onto a 16-bit number that it does not equal, so "up" is exact.
RINGWAY_KERNEL inline float ScaleOf(float m, double top, double largest) {
  constexpr std::uint64_t kDropped = (std::uint64_t{1} << (52 - 15)) - 1;
  const std::uint64_t bits = BitCast<std::uint64_t>(static_cast<double>(m) / top);
  const double scale = BitCast<double>((bits + kDropped) & ~kDropped);
  return static_cast<float>(scale < largest ? scale : largest);
}

template <int kBits>
struct Symmetric {
  static constexpr int kCodeBits = kBits;
  static constexpr bool kTwoEnds = false;
  static constexpr double kTop = (1 << (kBits - 1)) - 1;
  static constexpr double kLargestScale = kBits == 8 ? 0x1.0204p+121 : 0x1.2492p+125;  // kTop of them are finite
  static constexpr std::size_t kHeaderBytes = sizeof(float);

  float scale;

  // The header of a block whose largest magnitude is m. REQUIRES: m >= kFlushBelow.
  RINGWAY_KERNEL static Symmetric Of(float m, std::uint32_t) { return {ScaleOf(m, kTop, kLargestScale)}; }
  RINGWAY_KERNEL void Write(unsigned char* header) const { Store<float>(header, 0, scale); }
  RINGWAY_KERNEL static void WriteFlushed(unsigned char* header) { Store<std::uint32_t>(header, 0, 0); }
  RINGWAY_KERNEL static void WriteNan(unsigned char* header) { Store<std::uint32_t>(header, 0, kNanBits); }

  // With rounding to nearest the clamp changes nothing: |x / scale| < kTop + 1/2. A dither could carry it further where
  // the scale is capped.
  template <class R>
  RINGWAY_KERNEL std::uint8_t Code(float x, std::size_t i, const R& rounding, float m) const {
    const float dither = BitCast<float>(BitCast<std::uint32_t>(x) & kMagnitudeBits) == m ? 0.0f : rounding.Dither(i);
    const float steps = x / scale + dither;
    const float upto = steps > static_cast<float>(kTop) ? static_cast<float>(kTop) : steps;
    const float from = upto < static_cast<float>(-kTop) ? static_cast<float>(-kTop) : upto;
    return static_cast<std::uint8_t>(BitCast<std::uint32_t>(from + kRounder));
  }

  // Returns whether neighbouring codes decode to different elements of a dtype with this least number. Its last place
  // never hides a code: there are 127 at most.
  RINGWAY_KERNEL bool IsCoarserThan(float, float least) const { return scale >= least; }

  // Returns whether the header is of numbers. One unsigned comparison catches NaN, infinity and every negative scale.
  RINGWAY_KERNEL static bool Read(const unsigned char* header, Symmetric* out) {
    out->scale = Load<float>(header, 0);
    return BitCast<std::uint32_t>(out->scale) < kInfinityBits;
  }
  RINGWAY_KERNEL float Value(std::uint8_t code) const {
    constexpr int kUnused = 8 - kBits;
    return static_cast<float>(static_cast<std::int8_t>(static_cast<std::uint8_t>(code << kUnused)) >> kUnused) * scale;
  }
};

template <int kBits>
struct MinMax {
  static constexpr int kCodeBits = kBits;
  static constexpr bool kTwoEnds = true;
  static constexpr float kSteps = (1 << kBits) - 1;
  static constexpr std::size_t kHeaderBytes = 2 * sizeof(float);
  static constexpr float kLimit = 0x1p126f;

  float low, high, step;

  RINGWAY_KERNEL static float Clamp(float x) {
    const float upto = x > kLimit ? kLimit : x;
    return upto < -kLimit ? -kLimit : upto;
  }
  // Adding +0 turns -0 into +0.
  RINGWAY_KERNEL static MinMax Of(float least, float greatest) {
    MinMax out{Clamp(least) + 0.0f, Clamp(greatest) + 0.0f, 0.0f};
    const double range = static_cast<double>(out.high) - static_cast<double>(out.low);
    const bool flushed = range < static_cast<double>(kFlushBelow);
    out.high = flushed ? out.low : out.high;
    out.step = flushed ? 0.0f : static_cast<float>(range / static_cast<double>(kSteps));
    return out;
  }
  RINGWAY_KERNEL void Write(unsigned char* header) const {
    Store<float>(header, 0, low);
    Store<float>(header, 1, high);
  }
  RINGWAY_KERNEL static void WriteNan(unsigned char* header) {
    Store<std::uint32_t>(header, 0, kNanBits);
    Store<std::uint32_t>(header, 1, kNanBits);
  }

  // Both ends are exact: dithering is not for them. REQUIRES: step > 0.
  template <class R>
  RINGWAY_KERNEL std::uint8_t Code(float x, std::size_t i, const R& rounding, float) const {
    const float clamped = Clamp(x);
    const bool is_end = (clamped == low) | (clamped == high);
    const float dither = is_end ? 0.0f : rounding.Dither(i);
    // The step may have been rounded down, and a dither would carry what is next to `high` past the last code.
    const float steps = (clamped - low) / step + dither;
    return static_cast<std::uint8_t>(BitCast<std::uint32_t>((steps < kSteps ? steps : kSteps) + kRounder));
  }

  // The same; `ulp` is the dtype's last place of a number in [1, 2).
  RINGWAY_KERNEL bool IsCoarserThan(float ulp, float least) const {
    const std::uint32_t below = BitCast<std::uint32_t>(low) & kInfinityBits;
    const std::uint32_t above = BitCast<std::uint32_t>(high) & kInfinityBits;
    const float last_place = BitCast<float>(below < above ? above : below) * ulp;
    return step >= (last_place < least ? least : last_place);
  }

  RINGWAY_KERNEL static bool Read(const unsigned char* header, MinMax* out) {
    const std::uint32_t low = Load<std::uint32_t>(header, 0), high = Load<std::uint32_t>(header, 1);
    out->low = BitCast<float>(low);
    out->high = BitCast<float>(high);
    const double range = static_cast<double>(out->high) - static_cast<double>(out->low);
    out->step = static_cast<float>(range / static_cast<double>(kSteps));
    return (low & kMagnitudeBits) < kInfinityBits && (high & kMagnitudeBits) < kInfinityBits && out->low <= out->high;
  }
  RINGWAY_KERNEL float Value(std::uint8_t code) const {
    const float steps = static_cast<float>(code);
    const float value = low + steps * step;
    return steps == kSteps ? high : value;
  }
};

// ---------------------------------------------------------------------------------------------- small floats

// A floating-point format below f32 whose largest finite number is kTopCode. Infinities and NaN are the caller's.
template <int kMantissaBits, int kBias, std::uint32_t kTopCode>
struct SmallFloat {
  static constexpr int kShift = 23 - kMantissaBits;
  static constexpr std::uint32_t kRebias = static_cast<std::uint32_t>(127 - kBias) << 23;
  static constexpr std::uint32_t kLeastNormal = static_cast<std::uint32_t>(128 - kBias) << 23;
  // The step of the subnormals, as a power of two, and what rounds to it when added.
  static constexpr std::uint32_t kStepBits = static_cast<std::uint32_t>(128 - kBias - kMantissaBits) << 23;
  static constexpr std::uint32_t kRounderBits = kStepBits + (23U << 23) + 0x400000;

  // |y| in bits, past the largest finite number to it.
  template <class R>
  RINGWAY_KERNEL static std::uint32_t Code(std::uint32_t bits, std::size_t i, const R& rounding) {
    const std::uint32_t normal = (bits - kRebias + rounding.Carry(i, bits, kShift)) >> kShift;
    const float dithered = BitCast<float>(bits) + rounding.Dither(i) * BitCast<float>(kStepBits);
    const std::uint32_t subnormal = BitCast<std::uint32_t>(dithered + BitCast<float>(kRounderBits)) - kRounderBits;
    const std::uint32_t code = bits < kLeastNormal ? subnormal : normal;
    return code < kTopCode ? code : kTopCode;
  }
  RINGWAY_KERNEL static float Value(std::uint32_t code) {
    const float normal = BitCast<float>((code << kShift) + kRebias);
    const float subnormal = static_cast<float>(static_cast<std::int32_t>(code)) * BitCast<float>(kStepBits);
    return code < (1U << kMantissaBits) ? subnormal : normal;
  }
};

using E4m3 = SmallFloat<3, 7, 0x7e>;
using E5m2 = SmallFloat<2, 15, 0x7b>;

// A block's scale is 2^(header - 127), as in OCP's E8M0: m becomes one of the format's greatest binade.
template <class Format>
struct Fp8 {
  static constexpr bool kIsE4m3 = Format::kShift == 20;
  static constexpr int kCodeBits = 8;
  static constexpr bool kTwoEnds = false;
  static constexpr std::size_t kHeaderBytes = 1;
  static constexpr std::uint32_t kTopExponent = kIsE4m3 ? 8 : 15;
  // A significand of over 1.8125 (E4M3), or from 1.875 on (E5M2), would be rounded past the largest finite one.
  static constexpr std::uint32_t kBump = kIsE4m3 ? 0x17ffff : 0x100000;
  static constexpr std::uint32_t kNanHeader = 0xff;

  std::uint32_t header;

  // `largest`: bits of the number past which elements are taken for it, 1.75 times a power of two.
  RINGWAY_KERNEL static Fp8 Of(float m, std::uint32_t largest) {
    const std::uint32_t exponent = (BitCast<std::uint32_t>(m) + kBump) >> 23;
    const std::uint32_t limit = largest >> 23;
    return {(exponent < limit ? exponent : limit) - kTopExponent};
  }
  RINGWAY_KERNEL void Write(unsigned char* to) const { *to = static_cast<unsigned char>(header); }
  RINGWAY_KERNEL static void WriteFlushed(unsigned char* to) { *to = 0; }
  RINGWAY_KERNEL static void WriteNan(unsigned char* to) { *to = kNanHeader; }

  template <class R>
  RINGWAY_KERNEL std::uint8_t Code(float x, std::size_t i, const R& rounding, float m) const {
    const std::uint32_t bits = BitCast<std::uint32_t>(x);
    const float inverse = BitCast<float>((254 - header) << 23);
    const std::uint32_t y = BitCast<std::uint32_t>(BitCast<float>(bits & kMagnitudeBits) * inverse);
    const std::uint32_t dithered = Format::Code(y, i, rounding), nearest = Format::Code(y, i, ToNearest{});
    const std::uint32_t code = BitCast<float>(bits & kMagnitudeBits) == m ? nearest : dithered;
    return static_cast<std::uint8_t>(code | (bits >> 24 & 0x80));
  }

  // An element that is finer than the format is one of its numbers.
  RINGWAY_KERNEL bool IsCoarserThan(float, float) const { return true; }

  RINGWAY_KERNEL static bool Read(const unsigned char* from, Fp8* out) {
    out->header = *from;
    return out->header != kNanHeader;
  }
  // A header of 0 is a scale of 0. Codes that no encoder sends: E5M2's infinities, and NaN.
  RINGWAY_KERNEL float Value(std::uint8_t code) const {
    const std::uint32_t magnitude = code & 0x7fU;
    const float scale = BitCast<float>(header << 23);
    const float finite = Format::Value(magnitude);
    const float infinite = BitCast<float>(kIsE4m3 || magnitude > 0x7c ? kNanBits : kInfinityBits);
    const float value = (magnitude <= (kIsE4m3 ? 0x7eU : 0x7bU) ? finite : infinite) * scale;
    const std::uint32_t bits = BitCast<std::uint32_t>(value) | (static_cast<std::uint32_t>(code) & 0x80) << 24;
    return BitCast<float>(value != value ? kNanBits : bits);
  }
};

// Random bits round the dropped part of a significand. Numbers past the largest finite one, infinities and NaN are
// narrowed as usual.
RINGWAY_KERNEL inline BF16::Bits NarrowAtRandom(BF16, std::uint32_t bits, std::size_t i, const Stochastic& rounding) {
  const std::uint32_t rounded = bits + rounding.Carry(i, bits, 16);
  return (bits & kMagnitudeBits) <= 0x7f7f0000 ? static_cast<BF16::Bits>(rounded >> 16)
                                               : BF16::Narrow(BitCast<float>(bits));
}
RINGWAY_KERNEL inline F16::Bits NarrowAtRandom(F16, std::uint32_t bits, std::size_t i, const Stochastic& rounding) {
  const std::uint32_t magnitude = bits & kMagnitudeBits;
  const std::uint32_t code = SmallFloat<10, 15, 0x7bff>::Code(magnitude, i, rounding) | (bits >> 16 & 0x8000);
  return magnitude <= 0x477fe000 ? static_cast<F16::Bits>(code) : F16::Narrow(BitCast<float>(bits));
}

// ---------------------------------------------------------------------------------------------- by codec

// The block format of a codec with blocks.
template <Codec kCodec>
struct BlockOf;
template <>
struct BlockOf<Codec::kInt8> {
  using Type = Symmetric<8>;
};
template <>
struct BlockOf<Codec::kInt4> {
  using Type = Symmetric<4>;
};
template <>
struct BlockOf<Codec::kInt8Zp> {
  using Type = MinMax<8>;
};
template <>
struct BlockOf<Codec::kInt4Zp> {
  using Type = MinMax<4>;
};
template <>
struct BlockOf<Codec::kFp8E4m3> {
  using Type = Fp8<E4m3>;
};
template <>
struct BlockOf<Codec::kFp8E5m2> {
  using Type = Fp8<E5m2>;
};

// The floating-point format of a codec that is one.
template <Codec kCodec>
struct FormatOf;
template <>
struct FormatOf<Codec::kBf16> {
  using Type = BF16;
};
template <>
struct FormatOf<Codec::kF16> {
  using Type = F16;
};

}  // namespace
}  // namespace ringway::kernels
