#include "client/bench/check_values.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <type_traits>
#include <vector>

#include "client/bench/uneven.h"

namespace ringway::bench {
namespace {

// The finaliser of SplitMix64: every bit of the input reaches every bit of the output.
std::uint64_t Mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31);
}

std::uint64_t SeedOf(const InputName& name) { return Mix(Mix(name.peer + 0x9E3779B97F4A7C15U) ^ name.operation); }

std::uint64_t BitsAt(std::uint64_t seed, std::size_t index) { return Mix(seed + index * 0x9E3779B97F4A7C15U); }

bool IsHalf(DType dtype) { return dtype == DType::kF16 || dtype == DType::kBF16; }

// Sums of 64 such values are exact: up to 2 * 64 in 8 bits of mantissa, up to 512 * 64 in 24.
double SmallInteger(DType dtype, std::uint64_t bits) {
  return IsHalf(dtype) ? static_cast<double>(bits % 5) - 2.0 : static_cast<double>(bits % 1024) - 512.0;
}

// A floating-point format, for elements that have none of their own.
bool IsFormat(const CodecInfo& codec) { return !codec.layout.in_blocks; }

// Returns whether every power of two in 2^-64 .. 2^64 is encoded exactly, whatever its neighbours are.
bool CarriesFactors(const CodecInfo& codec) {
  return IsFormat(codec) && codec.error.magnitude_min <= 0x1p-64 && codec.error.magnitude_max >= 0x1p64;
}

// Products of 64 such values stay in range: 2^-64 .. 2^64, or only signs where the dtype or the codec is too narrow.
double Factor(const Reduction& reduction, std::uint64_t bits) {
  constexpr double kFactors[] = {1.0, -1.0, 2.0, 0.5};
  const bool signs_only = reduction.dtype == DType::kF16 || !CarriesFactors(InfoOf(reduction.codec));
  return kFactors[bits % (signs_only ? 2 : 4)];
}

double FloatAt(const Reduction& reduction, std::uint64_t bits) {
  if (reduction.op == ReduceOp::kProd) return Factor(reduction, bits >> 32);
  const bool extremum = reduction.op == ReduceOp::kMin || reduction.op == ReduceOp::kMax;
  if (extremum && InfoOf(reduction.codec).error.relative_max == 0.0 && bits % 61 == 0)
    return std::numeric_limits<double>::quiet_NaN();
  return SmallInteger(reduction.dtype, bits >> 32);
}

// Rounds to nearest even, with `precision` bits of mantissa and exponents from `exponent_min` on.
double RoundTo(double value, int precision, int exponent_min) {
  if (value == 0.0 || !std::isfinite(value)) return value;
  const double unit = std::ldexp(1.0, std::max(std::ilogb(value), exponent_min) - (precision - 1));
  return std::nearbyint(value / unit) * unit;
}

double RoundToDType(DType dtype, double value) {
  switch (dtype) {
    case DType::kF16:
      return RoundTo(value, 11, -14);
    case DType::kBF16:
      return RoundTo(value, 8, -126);
    case DType::kF32:
      return static_cast<double>(static_cast<float>(value));
    default:
      return value;
  }
}

double CombineFloats(ReduceOp op, double a, double b) {
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAvg:
      return a + b;
    case ReduceOp::kProd:
      return a * b;
    case ReduceOp::kMin:
      return std::isnan(a) || std::isnan(b) ? std::numeric_limits<double>::quiet_NaN() : std::min(a, b);
    case ReduceOp::kMax:
      return std::isnan(a) || std::isnan(b) ? std::numeric_limits<double>::quiet_NaN() : std::max(a, b);
  }
  return 0.0;
}

// Bound of the error of a result that `world_size` ranks may have encoded. A partial result is encoded at most once per
// rank, each time with at most the codec's error at the largest partial value.
double Tolerance(const Reduction& reduction, std::size_t world_size, std::size_t contributors) {
  const CodecInfo& codec = InfoOf(reduction.codec);
  if (world_size < 2) return 0.0;
  const double ranks = static_cast<double>(world_size);
  const bool adds = reduction.op == ReduceOp::kSum || reduction.op == ReduceOp::kAvg;
  const double value = IsHalf(reduction.dtype) ? 2.0 : 512.0;
  const double largest = reduction.op == ReduceOp::kProd ? 1.0 : value * (adds ? ranks : 1.0);
  // Powers of two are exact in a floating-point format.
  if (reduction.op == ReduceOp::kProd && IsFormat(codec)) return 0.0;
  if (codec.error.relative_max == 0.0) return 0.0;
  constexpr double kGrowth = 1.1;  // errors of earlier hops enlarge later ones
  // Halves are rounded when they are decoded, and in each sum.
  const double half = reduction.dtype == DType::kF16 ? 0x1p-11 : reduction.dtype == DType::kBF16 ? 0x1p-8 : 0.0;
  const double bound = ranks * largest * (ErrorOf(reduction.codec) + 2 * half) * kGrowth;
  const double in_all = reduction.feedback ? 2 * bound : bound;
  return reduction.op == ReduceOp::kAvg ? in_all / static_cast<double>(contributors) : in_all;
}

// Element types that can hold floating values: halves are uint16_t.
template <typename T>
constexpr bool kHoldsFloats = std::is_floating_point_v<T> || std::is_same_v<T, std::uint16_t>;

template <typename T>
double DecodeFloat(DType dtype, T element) {
  if constexpr (std::is_same_v<T, std::uint16_t>) {
    return dtype == DType::kF16 ? DecodeF16(element) : DecodeBf16(element);
  } else {
    return static_cast<double>(element);
  }
}

template <typename T>
T EncodeFloat(DType dtype, double value) {
  if constexpr (std::is_same_v<T, std::uint16_t>) {
    if (std::isnan(value)) return dtype == DType::kF16 ? 0x7E00 : 0x7FC0;
    return dtype == DType::kF16 ? EncodeF16(value) : EncodeBf16(value);
  } else {
    return static_cast<T>(value);
  }
}

template <typename T>
void FillFloats(const Reduction& reduction, std::uint64_t seed, T* values, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = EncodeFloat<T>(reduction.dtype, FloatAt(reduction, BitsAt(seed, i)));
  }
}

template <typename T>
void FillIntegers(std::uint64_t seed, T* values, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<T>(BitsAt(seed, i));
}

template <typename T>
std::uint64_t CountWrongFloats(const Reduction& reduction, const std::vector<std::uint64_t>& seeds, const T* result,
                               const Part& part, double tolerance) {
  std::uint64_t wrong = 0;
  for (std::size_t i = part.begin; i < part.begin + part.count; ++i) {
    double wanted = FloatAt(reduction, BitsAt(seeds[0], i));
    for (std::size_t j = 1; j < seeds.size(); ++j) {
      wanted = CombineFloats(reduction.op, wanted, FloatAt(reduction, BitsAt(seeds[j], i)));
    }
    if (reduction.op == ReduceOp::kAvg) wanted /= static_cast<double>(seeds.size());
    wanted = RoundToDType(reduction.dtype, wanted);
    const double found = DecodeFloat<T>(reduction.dtype, result[i - part.begin]);
    const bool right = std::isnan(wanted) ? std::isnan(found) : std::abs(found - wanted) <= tolerance;
    wrong += right ? 0 : 1;
  }
  return wrong;
}

// Sums and products wrap modulo 2^bits, so they are computed unsigned; signed products of small types would be promoted
// to int and overflow there.
template <typename T>
T CombineIntegers(ReduceOp op, T a, T b) {
  using Unsigned = std::make_unsigned_t<T>;
  const std::uint64_t wide_a = static_cast<Unsigned>(a);
  const std::uint64_t wide_b = static_cast<Unsigned>(b);
  switch (op) {
    case ReduceOp::kProd:
      return static_cast<T>(wide_a * wide_b);
    case ReduceOp::kMin:
      return std::min(a, b);
    case ReduceOp::kMax:
      return std::max(a, b);
    default:
      return static_cast<T>(wide_a + wide_b);
  }
}

template <typename T>
std::uint64_t CountWrongIntegers(ReduceOp op, const std::vector<std::uint64_t>& seeds, const T* result,
                                 const Part& part) {
  std::uint64_t wrong = 0;
  for (std::size_t i = part.begin; i < part.begin + part.count; ++i) {
    T wanted = static_cast<T>(BitsAt(seeds[0], i));
    for (std::size_t j = 1; j < seeds.size(); ++j) {
      wanted = CombineIntegers<T>(op, wanted, static_cast<T>(BitsAt(seeds[j], i)));
    }
    wrong += result[i - part.begin] == wanted ? 0 : 1;
  }
  return wrong;
}

// Calls `function` with a null pointer of the dtype's element type; halves are uint16_t.
template <typename Function>
auto WithElementType(DType dtype, Function function) {
  switch (dtype) {
    case DType::kU8:
      return function(static_cast<std::uint8_t*>(nullptr));
    case DType::kI8:
      return function(static_cast<std::int8_t*>(nullptr));
    case DType::kI16:
      return function(static_cast<std::int16_t*>(nullptr));
    case DType::kU32:
      return function(static_cast<std::uint32_t*>(nullptr));
    case DType::kI32:
      return function(static_cast<std::int32_t*>(nullptr));
    case DType::kU64:
      return function(static_cast<std::uint64_t*>(nullptr));
    case DType::kI64:
      return function(static_cast<std::int64_t*>(nullptr));
    case DType::kF32:
      return function(static_cast<float*>(nullptr));
    case DType::kF64:
      return function(static_cast<double*>(nullptr));
    default:
      return function(static_cast<std::uint16_t*>(nullptr));
  }
}

}  // namespace

double DecodeF16(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const double mantissa = bits & 1023;
  double magnitude = std::ldexp(mantissa, -24);
  if (exponent == 31) {
    magnitude = mantissa == 0 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  } else if (exponent > 0) {
    magnitude = std::ldexp(mantissa + 1024.0, exponent - 25);
  }
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

double DecodeBf16(std::uint16_t bits) {
  return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16));
}

std::uint16_t EncodeF16(double value) {
  const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (value == 0.0) return sign;
  const int exponent = std::ilogb(value);
  const auto mantissa = static_cast<int>(std::ldexp(std::abs(value), 10 - exponent)) - 1024;
  return static_cast<std::uint16_t>(sign | ((exponent + 15) << 10) | mantissa);
}

std::uint16_t EncodeBf16(double value) {
  return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(value)) >> 16);
}

void FillInput(const Reduction& reduction, const InputName& name, void* values, std::size_t count) {
  const std::uint64_t seed = SeedOf(name);
  WithElementType(reduction.dtype, [&]<typename T>(T* /*type*/) {
    if (IsInteger(reduction.dtype)) {
      if constexpr (std::is_integral_v<T>) FillIntegers(seed, static_cast<T*>(values), count);
    } else if constexpr (kHoldsFloats<T>) {
      FillFloats(reduction, seed, static_cast<T*>(values), count);
    }
  });
}

namespace {

// `world_size`: ranks that may have encoded a value.
std::uint64_t CountWrongOf(const Reduction& reduction, const std::vector<std::uint64_t>& contributors,
                           std::uint64_t operation, std::size_t world_size, const void* result, const Part& part) {
  std::vector<std::uint64_t> seeds;
  seeds.reserve(contributors.size());
  for (const std::uint64_t peer : contributors) seeds.push_back(SeedOf({peer, operation}));
  return WithElementType(reduction.dtype, [&]<typename T>(T* /*type*/) -> std::uint64_t {
    const auto* const elements = static_cast<const T*>(result);
    if (IsInteger(reduction.dtype)) {
      if constexpr (std::is_integral_v<T>) return CountWrongIntegers(reduction.op, seeds, elements, part);
    } else if constexpr (kHoldsFloats<T>) {
      return CountWrongFloats(reduction, seeds, elements, part, Tolerance(reduction, world_size, seeds.size()));
    }
    return part.count;
  });
}

// The part of rank `from`'s input that it sends to the rank which collected all parts.
Part ContributionOf(const Collected& collected, std::uint32_t world, std::uint32_t from) {
  const std::size_t count = collected.count;
  switch (collected.collective) {
    case OpKind::kAllToAll:
      return {collected.rank * count, count};
    case OpKind::kAllGatherV:
      return {0, ShareOf(count, world, from).count};
    case OpKind::kAllToAllV: {
      const std::vector<std::size_t> sent = ExchangedBy(count, world, from);
      const auto own = sent.begin() + collected.rank;
      return {std::accumulate(sent.begin(), own, std::size_t{0}), *own};
    }
    default:
      return {0, count};
  }
}

}  // namespace

std::uint64_t CountWrong(const Reduction& reduction, const std::vector<std::uint64_t>& contributors,
                         std::uint64_t operation, const void* result, std::size_t count) {
  return CountWrong(reduction, contributors, operation, {OpKind::kAllReduce, result, count, {0, count}});
}

std::uint64_t CountWrong(const Reduction& reduction, const std::vector<std::uint64_t>& contributors,
                         std::uint64_t operation, const Collected& collected) {
  const std::size_t element_bytes = SizeOf(reduction.dtype);
  const auto* const output = static_cast<const std::byte*>(collected.output);
  const Part& part = collected.part;
  const std::size_t world_size = contributors.size();
  if (world_size == 0) return part.count;
  const std::size_t own = collected.rank * collected.count;
  const auto moved_from = [&](std::size_t rank, std::size_t to, const Part& input) {
    const std::byte* const at = output + to * element_bytes;
    return CountWrongOf(reduction, {contributors[rank]}, operation, world_size, at, input);
  };
  switch (collected.collective) {
    case OpKind::kBroadcast:
      return moved_from(kRoot, 0, part);
    case OpKind::kScatter:
      return moved_from(kRoot, 0, {own, part.count});
    case OpKind::kSend:  // from the rank before
      return moved_from((collected.rank + world_size - 1) % world_size, 0, part);
    case OpKind::kAllGather:
    case OpKind::kGather:
    case OpKind::kAllToAll:
    case OpKind::kAllToAllV:
    case OpKind::kAllGatherV:
      break;
    default:
      return CountWrongOf(reduction, contributors, operation, world_size + collected.absent,
                          output + part.begin * element_bytes, part);
  }
  if (part.count == 0) return 0;  // not the root
  const auto world = static_cast<std::uint32_t>(world_size);
  const bool even = !HasCounts(collected.collective);
  if (part.begin != 0 || part.count != (even ? world_size : 1) * collected.count) return part.count;
  std::uint64_t wrong = 0;
  std::size_t to = 0;
  for (std::uint32_t i = 0; i < world; ++i) {
    const Part input = ContributionOf(collected, world, i);
    wrong += moved_from(i, to, input);
    to += input.count;
  }
  return wrong;
}

}  // namespace ringway::bench
