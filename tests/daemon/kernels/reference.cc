#include "tests/daemon/kernels/reference.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <random>
#include <span>

#include "proto/check.h"

namespace ringway::kernels::reference {
namespace {

// Wide enough that a sum or product of two doubles, rounded to it and then to double, is rounded as if once.
#if LDBL_MANT_DIG >= 113
using Quad = long double;
#else
__extension__ typedef __float128 Quad;  // NOLINT(modernize-use-using): __extension__ wants it
#endif

struct Format {
  int precision;  // bits of the significand, the hidden one included
  int emin, emax;
  Bits nan;
};

Format FormatOf(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return {11, -14, 15, 0x7e00};
    case DType::kBF16:
      return {8, -126, 127, 0x7fc0};
    case DType::kF32:
      return {24, -126, 127, 0x7fc00000};
    default:
      return {53, -1022, 1023, 0x7ff8000000000000};
  }
}

int BitsOf(DType dtype) { return static_cast<int>(SizeOf(dtype)) * 8; }

}  // namespace

double ToNumber(DType dtype, Bits bits) {
  const Format f = FormatOf(dtype);
  const Bits fraction = bits & ((Bits{1} << (f.precision - 1)) - 1);
  const bool negative = (bits >> (BitsOf(dtype) - 1)) & 1;
  const int exponent = static_cast<int>((bits >> (f.precision - 1)) & static_cast<Bits>(2 * f.emax + 1));
  double magnitude = 0;
  if (exponent == 2 * f.emax + 1) {
    magnitude = fraction == 0 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  } else if (exponent == 0) {
    magnitude = std::ldexp(static_cast<double>(fraction), f.emin - f.precision + 1);
  } else {
    magnitude =
        std::ldexp(static_cast<double>(fraction + (Bits{1} << (f.precision - 1))), exponent - f.emax - f.precision + 1);
  }
  return negative ? -magnitude : magnitude;
}

Bits ToBits(DType dtype, double x) {
  const Format f = FormatOf(dtype);
  if (std::isnan(x)) return f.nan;
  const Bits sign = static_cast<Bits>(std::signbit(x)) << (BitsOf(dtype) - 1);
  const Bits infinity = static_cast<Bits>(2 * f.emax + 1) << (f.precision - 1);
  x = std::fabs(x);
  if (std::isinf(x)) return sign | infinity;
  if (x == 0) return sign;
  const int exponent = std::max(std::ilogb(x), f.emin);
  const double steps = std::nearbyint(std::ldexp(x, f.precision - 1 - exponent));
  // `steps` has the hidden bit unless x is subnormal; adding instead of combining carries into the exponent.
  const Bits biased = static_cast<Bits>(exponent - f.emin) << (f.precision - 1);
  return sign | std::min(biased + static_cast<Bits>(steps), infinity);
}

namespace {

double RoundToF32(double x) { return ToNumber(DType::kF32, ToBits(DType::kF32, x)); }

// Sum, product or quotient, in the arithmetic of the dtype.
template <class Op>
Bits Arithmetic(DType dtype, Bits a, Bits b, Op op) {
  const double x = ToNumber(dtype, a), y = ToNumber(dtype, b);
  if (dtype == DType::kF64) return ToBits(dtype, static_cast<double>(op(static_cast<Quad>(x), static_cast<Quad>(y))));
  return ToBits(dtype, RoundToF32(op(x, y)));
}

Bits Least(DType dtype, Bits a, Bits b) {
  const double x = ToNumber(dtype, a), y = ToNumber(dtype, b);
  if (std::isnan(x) || std::isnan(y)) return FormatOf(dtype).nan;
  if (x == y) return std::signbit(x) ? a : b;
  return x < y ? a : b;
}

__extension__ typedef __int128 Int128;  // NOLINT(modernize-use-using): as above

Int128 ToInteger(DType dtype, Bits bits) {
  const bool is_signed = dtype == DType::kI8 || dtype == DType::kI16 || dtype == DType::kI32 || dtype == DType::kI64;
  const Int128 value = static_cast<Int128>(bits);
  const Int128 range = static_cast<Int128>(1) << BitsOf(dtype);
  return is_signed && value >= range / 2 ? value - range : value;
}

Bits CombineIntegers(DType dtype, ReduceOp op, Bits a, Bits b) {
  const Int128 x = ToInteger(dtype, a), y = ToInteger(dtype, b);
  const Bits mask = BitsOf(dtype) == 64 ? ~Bits{0} : (Bits{1} << BitsOf(dtype)) - 1;
  if (op == ReduceOp::kMin) return x < y ? a : b;
  if (op == ReduceOp::kMax) return x > y ? a : b;
  // The product of two u64 overflows even this type; its low half does not depend on the signs.
  __extension__ typedef unsigned __int128 Unsigned128;  // NOLINT(modernize-use-using): as above
  if (op == ReduceOp::kProd) return static_cast<Bits>(static_cast<Unsigned128>(a) * static_cast<Unsigned128>(b)) & mask;
  return static_cast<Bits>(x + y) & mask;
}

}  // namespace

Bits Combine(DType dtype, ReduceOp op, Bits a, Bits b) {
  if (IsInteger(dtype)) return CombineIntegers(dtype, op, a, b);
  const Bits sign = Bits{1} << (BitsOf(dtype) - 1);
  switch (op) {
    case ReduceOp::kMin:
      return Least(dtype, a, b);
    case ReduceOp::kMax: {
      const Bits flipped = Least(dtype, a ^ sign, b ^ sign);
      return flipped == FormatOf(dtype).nan ? flipped : flipped ^ sign;
    }
    case ReduceOp::kProd:
      return Arithmetic(dtype, a, b, [](auto x, auto y) { return x * y; });
    default:
      return Arithmetic(dtype, a, b, [](auto x, auto y) { return x + y; });
  }
}

Bits ScaledSum(DType dtype, Bits a, Bits b, const Scales& scales) {
  const double x = ToNumber(dtype, a) * scales.a, y = ToNumber(dtype, b) * scales.b;
  if (dtype == DType::kF64) return ToBits(dtype, static_cast<double>(static_cast<Quad>(x) + static_cast<Quad>(y)));
  return ToBits(dtype, RoundToF32(RoundToF32(x) + RoundToF32(y)));
}

Bits Divide(DType dtype, Bits a, double divisor) {
  const double x = ToNumber(dtype, a);
  if (dtype == DType::kF64) {
    return ToBits(dtype, static_cast<double>(static_cast<Quad>(x) / static_cast<Quad>(divisor)));
  }
  return ToBits(dtype, RoundToF32(x / RoundToF32(divisor)));
}

namespace {

struct Extent {
  double low = 0, high = 0, largest = 0;
  bool finite = true;
};

Extent ExtentOf(std::span<const float> block) {
  Extent out{.low = std::numeric_limits<double>::infinity(), .high = -std::numeric_limits<double>::infinity()};
  for (const float x : block) {
    out.finite = out.finite && std::isfinite(x);
    out.low = std::min<double>(out.low, x);
    out.high = std::max<double>(out.high, x);
    out.largest = std::max<double>(out.largest, std::fabs(x));
  }
  return out;
}

void AppendF32(std::vector<unsigned char>& wire, double x) {
  wire.resize(wire.size() + 4);
  SetElement(DType::kF32, wire.data() + wire.size() - 4, 0, ToBits(DType::kF32, x));
}

// Integers, in 8 or 4 bits of two's complement.
void AppendCodes(std::vector<unsigned char>& wire, const std::vector<int>& codes, int bits) {
  for (std::size_t i = 0; i < codes.size(); ++i) {
    const auto code = static_cast<unsigned char>(codes[i] & ((1 << bits) - 1));
    if (bits == 4 && i % 2 == 1) {
      wire.back() = static_cast<unsigned char>(wire.back() | code << 4);
    } else {
      wire.push_back(code);
    }
  }
}

// Returns the least number of 16 bits that is not below m / top, in integers: m = significand * 2^exponent.
double ScaleOf(double m, int top) {
  int exponent = 0;
  const auto significand = static_cast<std::uint64_t>(std::ldexp(std::frexp(m, &exponent), 24)) << 20;
  const auto divisor = static_cast<std::uint64_t>(top);
  exponent -= 44;
  std::uint64_t quotient = (significand + divisor - 1) / divisor;
  while (quotient >= 1 << 16) {
    quotient = (quotient + 1) / 2;
    ++exponent;
  }
  const double scale = std::ldexp(static_cast<double>(quotient), exponent);
  if (scale * top <= FLT_MAX) return scale;
  return top == 127 ? std::ldexp(0x8102, 106) : std::ldexp(0x9249, 110);
}

template <int kBits>
std::vector<unsigned char> EncodeSymmetric(std::span<const float> block, DType) {
  const Extent extent = ExtentOf(block);
  const bool flushed = !extent.finite || extent.largest < 0x1p-100;
  const double scale = flushed ? 0 : ScaleOf(extent.largest, (1 << (kBits - 1)) - 1);
  std::vector<unsigned char> wire;
  AppendF32(wire, extent.finite ? scale : std::nan(""));
  std::vector<int> codes;
  for (const float x : block) {
    codes.push_back(flushed ? 0 : static_cast<int>(std::nearbyint(RoundToF32(static_cast<double>(x) / scale))));
  }
  AppendCodes(wire, codes, kBits);
  return wire;
}

template <int kBits>
std::vector<unsigned char> EncodeMinMax(std::span<const float> block, DType) {
  const auto clamp = [](double x) { return std::clamp(x, -0x1p126, 0x1p126); };
  const Extent extent = ExtentOf(block);
  const double low = clamp(extent.low) + 0.0, high = clamp(extent.high) + 0.0;
  const bool flushed = !extent.finite || high - low < 0x1p-100;
  const double step = flushed ? 1 : RoundToF32((high - low) / ((1 << kBits) - 1));
  std::vector<unsigned char> wire;
  AppendF32(wire, extent.finite ? low : std::nan(""));
  AppendF32(wire, extent.finite ? (flushed ? low : high) : std::nan(""));
  std::vector<int> codes;
  for (const float x : block) {
    const double steps = RoundToF32(RoundToF32(clamp(x) - low) / step);
    codes.push_back(flushed ? 0 : static_cast<int>(std::nearbyint(steps)));
  }
  AppendCodes(wire, codes, kBits);
  return wire;
}

struct Fp8Format {
  int mantissa_bits, emin;
  double largest;
};

// Rounds to a number of the format, of any exponent from emin on.
double RoundToFormat(const Fp8Format& format, double x) {
  const int exponent = x == 0 ? format.emin : std::max(std::ilogb(x), format.emin);
  return std::ldexp(std::nearbyint(std::ldexp(x, format.mantissa_bits - exponent)), exponent - format.mantissa_bits);
}

// Returns the code of a finite magnitude, which is the number of the format's values below it.
int Fp8CodeOf(const Fp8Format& format, double x) {
  int code = 0;
  for (double number = 0; number < x; ++code) {
    const int exponent = number == 0 ? format.emin : std::max(std::ilogb(number), format.emin);
    number += std::ldexp(1, exponent - format.mantissa_bits);
  }
  return code;
}

template <int kMantissaBits>
std::vector<unsigned char> EncodeFp8(std::span<const float> block, DType dtype) {
  constexpr Fp8Format kFormat = kMantissaBits == 3 ? Fp8Format{3, -6, 448} : Fp8Format{2, -14, 57344};
  const Extent extent = ExtentOf(block);
  if (!extent.finite || extent.largest < 0x1p-100) {
    std::vector<unsigned char> wire(1 + block.size());
    wire[0] = extent.finite ? 0 : 0xff;
    return wire;
  }
  const double finite = dtype == DType::kF16 ? 65504 : FLT_MAX;
  int exponent = -140;
  while (RoundToFormat(kFormat, std::ldexp(extent.largest, -exponent)) > kFormat.largest &&
         std::ldexp(kFormat.largest, exponent + 1) <= finite) {
    ++exponent;
  }
  std::vector<unsigned char> wire = {static_cast<unsigned char>(exponent + 127)};
  for (const float x : block) {
    const double magnitude = RoundToFormat(kFormat, std::ldexp(std::fabs(static_cast<double>(x)), -exponent));
    const int code = Fp8CodeOf(kFormat, std::min(magnitude, kFormat.largest));
    wire.push_back(static_cast<unsigned char>(code | (std::signbit(x) ? 0x80 : 0)));
  }
  return wire;
}

// A codec that is a floating-point format.
template <DType kFormat>
std::vector<unsigned char> EncodeFormat(std::span<const float> values, DType) {
  std::vector<unsigned char> wire(values.size() * SizeOf(kFormat));
  for (std::size_t i = 0; i < values.size(); ++i) {
    SetElement(kFormat, wire.data(), i, ToBits(kFormat, static_cast<double>(values[i])));
  }
  return wire;
}

struct ReferenceCodec {
  Codec codec;
  std::vector<unsigned char> (*encode)(std::span<const float> block, DType dtype);
};
constexpr ReferenceCodec kReferenceCodecs[] = {
    {Codec::kBf16, EncodeFormat<DType::kBF16>},
    {Codec::kInt8, EncodeSymmetric<8>},
    {Codec::kF16, EncodeFormat<DType::kF16>},
    {Codec::kInt4, EncodeSymmetric<4>},
    {Codec::kInt8Zp, EncodeMinMax<8>},
    {Codec::kInt4Zp, EncodeMinMax<4>},
    {Codec::kFp8E4m3, EncodeFp8<3>},
    {Codec::kFp8E5m2, EncodeFp8<2>},
};

}  // namespace

std::vector<unsigned char> Encode(const Encoding& encoding, DType dtype, const std::vector<unsigned char>& values) {
  const auto* const row =
      std::find_if(std::begin(kReferenceCodecs), std::end(kReferenceCodecs),
                   [&](const ReferenceCodec& candidate) { return candidate.codec == encoding.codec; });
  RINGWAY_CHECK(row != std::end(kReferenceCodecs));
  std::vector<float> floats;
  for (std::size_t i = 0; i < values.size() / SizeOf(dtype); ++i) {
    floats.push_back(static_cast<float>(ToNumber(dtype, ElementAt(dtype, values.data(), i))));
  }
  std::vector<unsigned char> wire;
  for (std::span<const float> rest(floats); !rest.empty();) {
    const std::size_t n = encoding.block == 0 ? rest.size() : std::min<std::size_t>(rest.size(), encoding.block);
    const std::vector<unsigned char> block = row->encode(rest.first(n), dtype);
    wire.insert(wire.end(), block.begin(), block.end());
    rest = rest.subspan(n);
  }
  return wire;
}

std::vector<Bits> Specials(DType dtype) {
  const Bits sign = Bits{1} << (BitsOf(dtype) - 1);
  const Bits all = sign | (sign - 1);
  if (IsInteger(dtype)) return {0, 1, 2, 3, sign - 1, sign, sign + 1, all - 1, all, all / 3};
  const Format f = FormatOf(dtype);
  const Bits infinity = static_cast<Bits>(2 * f.emax + 1) << (f.precision - 1);
  const Bits least_normal = Bits{1} << (f.precision - 1);
  const Bits one = static_cast<Bits>(f.emax) << (f.precision - 1);
  std::vector<Bits> bits = {0,
                            1,
                            2,
                            3,
                            least_normal - 1,
                            least_normal,
                            least_normal + 1,
                            one - 1,
                            one,
                            one + 1,
                            one * 2,
                            infinity - 2,
                            infinity - 1,
                            infinity,
                            infinity + 1,
                            f.nan,
                            f.nan + 1,
                            sign - 1,
                            ToBits(dtype, 3),
                            ToBits(dtype, 0.1),
                            ToBits(dtype, 1e4)};
  for (std::size_t i = bits.size(); i-- > 0;) bits.push_back(bits[i] | sign);
  for (Bits& b : bits) b &= all;
  return bits;
}

std::vector<unsigned char> Mixture(DType dtype, std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const std::vector<Bits> specials = Specials(dtype);
  std::vector<unsigned char> bytes(count * SizeOf(dtype));
  for (std::size_t i = 0; i < count; ++i) {
    const bool special = random() % 4 == 0;
    SetElement(dtype, bytes.data(), i, special ? specials[random() % specials.size()] : random());
  }
  return bytes;
}

Bits ElementAt(DType dtype, const unsigned char* elements, std::size_t i) {
  Bits bits = 0;
  std::memcpy(&bits, elements + i * SizeOf(dtype), SizeOf(dtype));
  return bits;
}

void SetElement(DType dtype, unsigned char* elements, std::size_t i, Bits bits) {
  std::memcpy(elements + i * SizeOf(dtype), &bits, SizeOf(dtype));
}

std::vector<Isa> Isas() {
  std::vector<Isa> available;
  for (const Isa isa : {Isa::kScalar, Isa::kAvx2, Isa::kAvx512}) {
    if (IsAvailable(isa)) available.push_back(isa);
  }
  return available;
}

}  // namespace ringway::kernels::reference
