// The loops over elements, written once and compiled once for each instruction set (see CMakeLists.txt): g++ vectorises
// them, and tests/bench/kernels_bench.cc shows whether it did.
//
// `ivdep` is true everywhere below: an output either is an input, element for element, or does not overlap it.
#include "daemon/kernels/elements.h"
#include "daemon/kernels/half_vectors.h"
#include "daemon/kernels/kernel_table.h"

namespace ringway::kernels::RINGWAY_KERNELS_ISA {
namespace {

using Bytes = unsigned char;

// The operations: `Arith` on widened numbers, single ones or vectors; `Apply` on the bits of one element.
struct Sum {
  static constexpr auto Arith = [](auto a, auto b) { return a + b; };
  template <class E, class Bits = typename E::Bits>
  static Bits Apply(Bits a, Bits b) {
    return E::Narrow(Arith(E::Widen(a), E::Widen(b)));
  }
};
struct Prod {
  static constexpr auto Arith = [](auto a, auto b) { return a * b; };
  template <class E, class Bits = typename E::Bits>
  static Bits Apply(Bits a, Bits b) {
    return E::Narrow(Arith(E::Widen(a), E::Widen(b)));
  }
};
struct Min {
  template <class E, class Bits = typename E::Bits>
  static Bits Apply(Bits a, Bits b) {
    return E::Min(a, b);
  }
};
struct Max {
  template <class E, class Bits = typename E::Bits>
  static Bits Apply(Bits a, Bits b) {
    return E::Max(a, b);
  }
};

template <class E, class Op>
void ReduceLoop(void* dst, const void* a, const void* b, std::size_t count) {
  using Bits = typename E::Bits;
  Bytes* const out = static_cast<Bytes*>(dst);
  const Bytes* const left = static_cast<const Bytes*>(a);
  const Bytes* const right = static_cast<const Bytes*>(b);
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i)
    Store<Bits>(out, i, Op::template Apply<E>(Load<Bits>(left, i), Load<Bits>(right, i)));
}

template <class E>
void FinalizeLoop(void* dst, std::size_t count, std::uint32_t contributors) {
  using Bits = typename E::Bits;
  using Wide = typename E::Wide;
  Bytes* const out = static_cast<Bytes*>(dst);
  const Wide divisor = static_cast<Wide>(contributors);
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) Store<Bits>(out, i, E::Narrow(E::Widen(Load<Bits>(out, i)) / divisor));
}

// f16: whole vectors where the CPU has F16C, then the portable loop for the rest.
template <class Op>
void ReduceF16(void* dst, const void* a, const void* b, std::size_t count) {
  Bytes* const out = static_cast<Bytes*>(dst);
  const Bytes* const left = static_cast<const Bytes*>(a);
  const Bytes* const right = static_cast<const Bytes*>(b);
  const std::size_t done = ApplyToHalves(out, left, right, count, Op::Arith);
  const std::size_t offset = done * sizeof(F16::Bits);
  ReduceLoop<F16, Op>(out + offset, left + offset, right + offset, count - done);
}

void FinalizeF16(void* dst, std::size_t count, std::uint32_t contributors) {
  Bytes* const out = static_cast<Bytes*>(dst);
  const float divisor = static_cast<float>(contributors);
  const std::size_t done = ApplyToHalves(out, out, out, count, [divisor](auto x, auto) { return x / divisor; });
  FinalizeLoop<F16>(out + done * sizeof(F16::Bits), count - done, contributors);
}

void EncodeBf16(void* wire, const void* values, std::size_t count) {
  Bytes* const out = static_cast<Bytes*>(wire);
  const Bytes* const in = static_cast<const Bytes*>(values);
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) Store<std::uint16_t>(out, i, BF16::Narrow(Load<float>(in, i)));
}

void DecodeBf16(void* values, const void* wire, std::size_t count) {
  Bytes* const out = static_cast<Bytes*>(values);
  const Bytes* const in = static_cast<const Bytes*>(wire);
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) Store<float>(out, i, BF16::Widen(Load<std::uint16_t>(in, i)));
}

void EncodeF16(void* wire, const void* values, std::size_t count) {
  Bytes* const out = static_cast<Bytes*>(wire);
  const Bytes* const in = static_cast<const Bytes*>(values);
  const std::size_t done = HalvesFromFloats(out, in, count);
#pragma GCC ivdep
  for (std::size_t i = done; i < count; ++i) Store<F16::Bits>(out, i, F16::Narrow(Load<float>(in, i)));
}

// F16C only quiets a NaN; made canonical here, so that all instruction sets decode to the same bits.
void DecodeF16(void* values, const void* wire, std::size_t count) {
  Bytes* const out = static_cast<Bytes*>(values);
  const Bytes* const in = static_cast<const Bytes*>(wire);
  const std::size_t done = FloatsFromHalves(out, in, count);
#pragma GCC ivdep
  for (std::size_t i = done; i < count; ++i) Store<F32::Bits>(out, i, F32::Narrow(F16::Widen(Load<F16::Bits>(in, i))));
}

// int8 blocks: a scale, then the codes.
constexpr std::size_t kBlock = InfoOf(Codec::kInt8).layout.block_elements;
constexpr std::size_t kScaleBytes = sizeof(float);

constexpr std::int32_t kInfinityBits = 0x7f800000;
constexpr std::uint32_t kNanBits = 0x7fc00000;
constexpr float kFlushBelow = 0x1p-100f;
constexpr double kLargestScale = 0x1.0204p+121;

// m / 127 rounded up to 16 significant bits. In double the quotient of a 24-bit number by 127 never rounds onto a
// 16-bit number that it does not equal, so "up" is exact.
inline float ScaleOf(float m) {
  constexpr std::uint64_t kDropped = (std::uint64_t{1} << (52 - 15)) - 1;
  const std::uint64_t bits = BitCast<std::uint64_t>(static_cast<double>(m) / 127.0);
  const double scale = BitCast<double>((bits + kDropped) & ~kDropped);
  return static_cast<float>(scale < kLargestScale ? scale : kLargestScale);
}

// Always inlined, so that whole blocks get loops of known length.
[[gnu::always_inline]] inline void EncodeBlock(Bytes* wire, const Bytes* values, std::size_t n) {
  Bytes* const codes = wire + kScaleBytes;
  // Magnitudes order like integers, with infinity and NaN on top; one maximum finds m and tells whether all are finite.
  std::int32_t top = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const std::int32_t magnitude = Load<std::int32_t>(values, i) & 0x7fffffff;
    top = top < magnitude ? magnitude : top;
  }
  const float m = BitCast<float>(top);
  if (top >= kInfinityBits || m < kFlushBelow) {
    Store<std::uint32_t>(wire, 0, top >= kInfinityBits ? kNanBits : 0);
    __builtin_memset(codes, 0, n);
    return;
  }
  const float scale = ScaleOf(m);
  Store<float>(wire, 0, scale);
  // |x / scale| < 127.5, so no clamp is needed. Adding 1.5 * 2^23 rounds to nearest even and leaves the integer in the
  // low bits.
  constexpr float kRounder = 0x1.8p23f;
#pragma GCC ivdep
  for (std::size_t i = 0; i < n; ++i) {
    const float rounded = Load<float>(values, i) / scale + kRounder;
    Store<std::int8_t>(codes, i, static_cast<std::int8_t>(BitCast<std::uint32_t>(rounded)));
  }
}

[[gnu::always_inline]] inline void DecodeBlock(Bytes* values, const Bytes* wire, std::size_t n) {
  const Bytes* const codes = wire + kScaleBytes;
  const float scale = Load<float>(wire, 0);
  // One unsigned comparison catches NaN, infinity and every negative scale, which a hostile peer may send.
  if (Load<std::uint32_t>(wire, 0) >= static_cast<std::uint32_t>(kInfinityBits)) {
    for (std::size_t i = 0; i < n; ++i) Store<std::uint32_t>(values, i, kNanBits);
    return;
  }
#pragma GCC ivdep
  for (std::size_t i = 0; i < n; ++i) Store<float>(values, i, static_cast<float>(Load<std::int8_t>(codes, i)) * scale);
}

void EncodeInt8(void* wire, const void* values, std::size_t count) {
  Bytes* out = static_cast<Bytes*>(wire);
  const Bytes* in = static_cast<const Bytes*>(values);
  for (; count >= kBlock; count -= kBlock) {
    EncodeBlock(out, in, kBlock);
    out += kScaleBytes + kBlock;
    in += kBlock * sizeof(float);
  }
  if (count > 0) EncodeBlock(out, in, count);
}

void DecodeInt8(void* values, const void* wire, std::size_t count) {
  Bytes* out = static_cast<Bytes*>(values);
  const Bytes* in = static_cast<const Bytes*>(wire);
  for (; count >= kBlock; count -= kBlock) {
    DecodeBlock(out, in, kBlock);
    in += kScaleBytes + kBlock;
    out += kBlock * sizeof(float);
  }
  if (count > 0) DecodeBlock(out, in, count);
}

using U8 = Integer<std::uint8_t, std::uint32_t>;
using I8 = Integer<std::int8_t, std::uint32_t>;
using U16 = Integer<std::uint16_t, std::uint32_t>;
using I16 = Integer<std::int16_t, std::uint32_t>;
using U32 = Integer<std::uint32_t, std::uint32_t>;
using I32 = Integer<std::int32_t, std::uint32_t>;
using U64 = Integer<std::uint64_t, std::uint64_t>;
using I64 = Integer<std::int64_t, std::uint64_t>;

// In the order of ReduceOp; avg sums.
template <class E>
constexpr ReduceRow kRow = {ReduceLoop<E, Sum>, ReduceLoop<E, Sum>, ReduceLoop<E, Prod>, ReduceLoop<E, Min>,
                            ReduceLoop<E, Max>};
template <>
constexpr ReduceRow kRow<F16> = {ReduceF16<Sum>, ReduceF16<Sum>, ReduceF16<Prod>, ReduceLoop<F16, Min>,
                                 ReduceLoop<F16, Max>};

// A codec of values of one dtype.
struct CodecLoops {
  Codec codec;
  DType dtype;
  CodecFns functions;
};
constexpr CodecLoops kCodecLoops[] = {
    {Codec::kBf16, DType::kF32, {EncodeBf16, DecodeBf16}},
    {Codec::kInt8, DType::kF32, {EncodeInt8, DecodeInt8}},
    {Codec::kF16, DType::kF32, {EncodeF16, DecodeF16}},
};

using CodecRows = std::array<CodecRow, kCodecCount>;

constexpr CodecRows RowsOfCodecs() {
  CodecRows rows = {};
  for (const CodecLoops& loops : kCodecLoops) {
    rows[static_cast<std::uint8_t>(loops.codec)][static_cast<std::uint8_t>(loops.dtype)] = loops.functions;
  }
  return rows;
}

// Every dtype that a codec encodes has its functions, and no other.
constexpr bool AreComplete(const CodecRows& rows) {
  for (const CodecInfo& info : kCodecs) {
    for (std::uint8_t dtype = 0; dtype < kDTypeCount; ++dtype) {
      const CodecFns& functions = rows[static_cast<std::uint8_t>(info.codec)][dtype];
      const bool encodes = info.layout.code_bytes > 0 && (info.dtypes >> dtype & 1) != 0;
      if ((functions.encode != nullptr) != encodes || (functions.decode != nullptr) != encodes) return false;
    }
  }
  return true;
}
static_assert(AreComplete(RowsOfCodecs()));

// In the order of DType.
constexpr KernelTable kTable = {
    .reduce = {kRow<U8>, kRow<I8>, kRow<U16>, kRow<I16>, kRow<U32>, kRow<I32>, kRow<U64>, kRow<I64>, kRow<F16>,
               kRow<BF16>, kRow<F32>, kRow<F64>},
    .finalize = {nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, FinalizeF16,
                 FinalizeLoop<BF16>, FinalizeLoop<F32>, FinalizeLoop<F64>},
    .codecs = RowsOfCodecs(),
};

}  // namespace

const KernelTable& Table() { return kTable; }

}  // namespace ringway::kernels::RINGWAY_KERNELS_ISA
