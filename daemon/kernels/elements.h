// The scalar definition of every element type: how its bits are widened for arithmetic, narrowed again and ordered.
//
// Written for vectorisation: no branches, no calls, no tables; selects only. Internal to vector_loops.cc, which is
// compiled for several instruction sets. So everything here has internal linkage and uses no library function: an
// inline function with external linkage could be emitted with AVX-512 code and chosen by the linker for all processors.
#pragma once

#include <cstddef>
#include <cstdint>

// Compiled by nvcc, too, for both sides.
#if defined(__CUDACC__)
#define RINGWAY_KERNEL __host__ __device__
#else
#define RINGWAY_KERNEL
#endif

namespace ringway::kernels {
namespace {

template <class To, class From>
RINGWAY_KERNEL inline To BitCast(From from) {
  return __builtin_bit_cast(To, from);
}

template <class T>
RINGWAY_KERNEL inline T Load(const unsigned char* base, std::size_t i) {
  T value;
  __builtin_memcpy(&value, base + i * sizeof(T), sizeof(T));
  return value;
}

template <class T>
RINGWAY_KERNEL inline void Store(unsigned char* base, std::size_t i, T value) {
  __builtin_memcpy(base + i * sizeof(T), &value, sizeof(T));
}

// Integers: sums and products are formed in an unsigned type of at least 32 bits, where wrapping is defined (two u16
// would be promoted to int, and their product overflow it).
template <class T, class WideT>
struct Integer {
  using Bits = T;
  using Wide = WideT;
  RINGWAY_KERNEL static Wide Widen(Bits bits) { return static_cast<Wide>(bits); }
  RINGWAY_KERNEL static Bits Narrow(Wide value) { return static_cast<Bits>(value); }
  RINGWAY_KERNEL static Bits Min(Bits a, Bits b) { return b < a ? b : a; }
  RINGWAY_KERNEL static Bits Max(Bits a, Bits b) { return a < b ? b : a; }
};

// min and max of a binary floating format, on its bits alone. With the magnitude of negative numbers inverted the bits
// order like integers, -0 just below +0; so one signed comparison decides.
template <class BitsT, class SignedT, BitsT kInfinity, BitsT kNan>
struct FloatOrder {
  static constexpr BitsT kMagnitude = static_cast<BitsT>(static_cast<BitsT>(~BitsT{0}) >> 1);
  static constexpr BitsT kInfinityBits = kInfinity;
  static constexpr BitsT kLargestBits = kInfinity - 1;  // finite

  RINGWAY_KERNEL static bool IsNan(BitsT x) {
    return static_cast<SignedT>(x & kMagnitude) > static_cast<SignedT>(kInfinity);
  }
  RINGWAY_KERNEL static SignedT Key(BitsT x) {
    const SignedT s = static_cast<SignedT>(x);
    const SignedT sign = static_cast<SignedT>(s >> (sizeof(BitsT) * 8 - 1));
    return static_cast<SignedT>(s ^ (sign & static_cast<SignedT>(kMagnitude)));
  }
  RINGWAY_KERNEL static BitsT Min(BitsT a, BitsT b) {
    const BitsT least = Key(b) < Key(a) ? b : a;
    return IsNan(a) | IsNan(b) ? kNan : least;
  }
  RINGWAY_KERNEL static BitsT Max(BitsT a, BitsT b) {
    const BitsT greatest = Key(a) < Key(b) ? b : a;
    return IsNan(a) | IsNan(b) ? kNan : greatest;
  }
};

struct F32 : FloatOrder<std::uint32_t, std::int32_t, 0x7f800000, 0x7fc00000> {
  using Bits = std::uint32_t;
  using Wide = float;
  RINGWAY_KERNEL static Wide Widen(Bits bits) { return BitCast<float>(bits); }
  RINGWAY_KERNEL static Bits Narrow(Wide value) { return value != value ? Bits{0x7fc00000} : BitCast<Bits>(value); }
};

struct F64 : FloatOrder<std::uint64_t, std::int64_t, 0x7ff0000000000000, 0x7ff8000000000000> {
  using Bits = std::uint64_t;
  using Wide = double;
  RINGWAY_KERNEL static Wide Widen(Bits bits) { return BitCast<double>(bits); }
  RINGWAY_KERNEL static Bits Narrow(Wide value) {
    return value != value ? Bits{0x7ff8000000000000} : BitCast<Bits>(value);
  }
};

struct BF16 : FloatOrder<std::uint16_t, std::int16_t, 0x7f80, 0x7fc0> {
  static constexpr bool kIsHalf = false;
  using Bits = std::uint16_t;
  using Wide = float;
  RINGWAY_KERNEL static Wide Widen(Bits bits) { return BitCast<float>(static_cast<std::uint32_t>(bits) << 16); }
  // Nearest even: add just under a half, and the missing part when the kept part is odd. A carry out of the mantissa
  // raises the exponent, up to infinity, as it should.
  RINGWAY_KERNEL static Bits Narrow(Wide value) {
    const std::uint32_t bits = BitCast<std::uint32_t>(value);
    const std::uint32_t rounded = bits + 0x7fff + ((bits >> 16) & 1);
    return static_cast<Bits>((value != value ? 0x7fc00000 : rounded) >> 16);
  }
};

struct F16 : FloatOrder<std::uint16_t, std::int16_t, 0x7c00, 0x7e00> {
  static constexpr bool kIsHalf = true;  // F16C converts it
  using Bits = std::uint16_t;
  using Wide = float;
  static constexpr std::uint32_t kRebias = (127 - 15) << 23;  // from the exponent of f16 to that of f32

  // Infinity and NaN rebias twice, which lands on f32's own. Subnormals are a count of 2^-24.
  RINGWAY_KERNEL static Wide Widen(Bits bits) {
    const std::uint32_t sign = (bits & 0x8000u) << 16;
    const std::uint32_t magnitude = bits & 0x7fffu;
    const std::uint32_t normal = (magnitude << 13) + (magnitude >= 0x7c00 ? 2 * kRebias : kRebias);
    const std::uint32_t subnormal =
        BitCast<std::uint32_t>(static_cast<float>(static_cast<std::int32_t>(magnitude)) * 0x1p-24f);
    return BitCast<float>((magnitude < 0x400 ? subnormal : normal) | sign);
  }
  // Nearest even. Results that are subnormal are rounded by the adder: the last place of a number near 0.5 is 2^-24.
  RINGWAY_KERNEL static Bits Narrow(Wide value) {
    const std::uint32_t bits = BitCast<std::uint32_t>(value);
    const std::int32_t magnitude = static_cast<std::int32_t>(bits & 0x7fffffff);
    const std::int32_t rounded =
        (magnitude - static_cast<std::int32_t>(kRebias) + 0xfff + ((magnitude >> 13) & 1)) >> 13;
    const std::int32_t normal = rounded > 0x7c00 ? 0x7c00 : rounded;
    const std::int32_t subnormal =
        BitCast<std::int32_t>(BitCast<float>(magnitude) + 0.5f) - BitCast<std::int32_t>(0.5f);
    const std::int32_t finite = magnitude < 0x38800000 ? subnormal : normal;
    const std::uint32_t with_sign = static_cast<std::uint32_t>(finite) | ((bits >> 16) & 0x8000);
    return static_cast<Bits>(magnitude > 0x7f800000 ? 0x7e00 : with_sign);
  }
};

}  // namespace
}  // namespace ringway::kernels
