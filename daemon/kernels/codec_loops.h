// The loops of the codecs over f32, and over f16 and bf16 by way of a few f32 at a time. Internal to vector_loops.cc,
// which is compiled for several instruction sets; internal linkage for the reason given in elements.h.
//
// `ivdep` is true everywhere below: no output overlaps an input.
#pragma once

#include <ringway/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "daemon/kernels/codec_math.h"
#include "daemon/kernels/elements.h"
#include "daemon/kernels/half_vectors.h"
#include "daemon/kernels/kernel_table.h"

namespace ringway::kernels {
namespace {

using Bytes = unsigned char;

// Extremes of a block's elements.
struct Extremes {
  float least, greatest;
  float largest;  // in magnitude
  bool finite;
};

// Magnitudes order like integers, with infinity and NaN on top: one maximum finds m and shows whether all are finite.
template <bool kTwoEnds>
[[gnu::always_inline]] inline Extremes ExtremesOf(const Bytes* values, std::size_t n) {
  std::int32_t top = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const std::int32_t magnitude = Load<std::int32_t>(values, i) & static_cast<std::int32_t>(kMagnitudeBits);
    top = top < magnitude ? magnitude : top;
  }
  std::int32_t low = 0x7fffffff, high = -0x7fffffff - 1;
  for (std::size_t i = 0; kTwoEnds && i < n; ++i) {
    const std::int32_t order = OrderOf(Load<std::int32_t>(values, i));
    low = order < low ? order : low;
    high = high < order ? order : high;
  }
  return {BitCast<float>(OrderOf(low)), BitCast<float>(OrderOf(high)), BitCast<float>(top),
          static_cast<std::uint32_t>(top) < kInfinityBits};
}

constexpr std::size_t CodeBytes(std::size_t n, int code_bits) {
  return (n * static_cast<std::size_t>(code_bits) + 7) / 8;
}

// Two codes of four bits a byte, the earlier one in the low half.
[[gnu::always_inline]] inline void Pack(Bytes* codes, const Bytes* whole, std::size_t n) {
#pragma GCC ivdep
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint16_t pair = Load<std::uint16_t>(whole, i);
    Store<std::uint8_t>(codes, i, static_cast<std::uint8_t>((pair & 0x0f) | (pair >> 4 & 0xf0)));
  }
}
[[gnu::always_inline]] inline void Unpack(Bytes* whole, const Bytes* codes, std::size_t n) {
#pragma GCC ivdep
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint16_t pair = Load<std::uint8_t>(codes, i);
    Store<std::uint16_t>(whole, i, static_cast<std::uint16_t>((pair & 0x0f) | (pair & 0xf0) << 4));
  }
}

template <class C, class R>
[[gnu::always_inline]] inline void EncodeCodes(Bytes* codes, const Bytes* values, std::size_t n, const C& block,
                                               const R& rounding, float m) {
  alignas(64) Bytes unpacked[kBlockMax + 1];
  Bytes* const whole = C::kCodeBits == 8 ? codes : unpacked;
#pragma GCC ivdep
  for (std::size_t i = 0; i < n; ++i) Store<std::uint8_t>(whole, i, block.Code(Load<float>(values, i), i, rounding, m));
  if constexpr (C::kCodeBits == 4) {
    whole[n] = 0;
    Pack(codes, whole, (n + 1) / 2);
  }
}

// Elements of a dtype that is coarser than the codes are rounded to nearest: then they come back as they were, and
// otherwise decoding would round them onto another code.
template <class C, class R>
[[gnu::always_inline]] inline void RoundCodes(Bytes* codes, const Bytes* values, std::size_t n, const C& block,
                                              const DTypeLimits& limits, const R& rounding, float m) {
  if (R::kIsRandom && !block.IsCoarserThan(limits.ulp, limits.least)) {
    EncodeCodes(codes, values, n, block, ToNearest{}, m);
  } else {
    EncodeCodes(codes, values, n, block, rounding, m);
  }
}

template <class C, class R>
[[gnu::always_inline]] inline void EncodeBlock(Bytes* wire, const Bytes* values, std::size_t n,
                                               const DTypeLimits& limits, const R& rounding) {
  Bytes* const codes = wire + C::kHeaderBytes;
  const Extremes found = ExtremesOf<C::kTwoEnds>(values, n);
  if (!found.finite) {
    C::WriteNan(wire);
    __builtin_memset(codes, 0, CodeBytes(n, C::kCodeBits));
    return;
  }
  if constexpr (C::kTwoEnds) {
    const C block = C::Of(found.least, found.greatest);
    block.Write(wire);
    if (block.step > 0) {
      RoundCodes(codes, values, n, block, limits, rounding, 0.0f);
      return;
    }
  } else if (found.largest >= kFlushBelow) {
    const C block = C::Of(found.largest, limits.fp8_largest);
    block.Write(wire);
    RoundCodes(codes, values, n, block, limits, rounding, found.largest);
    return;
  } else {
    C::WriteFlushed(wire);
  }
  __builtin_memset(codes, 0, CodeBytes(n, C::kCodeBits));
}

template <class C>
[[gnu::always_inline]] inline void DecodeBlock(Bytes* values, const Bytes* wire, std::size_t n) {
  const Bytes* codes = wire + C::kHeaderBytes;
  C block;
  if (!C::Read(wire, &block)) {
    for (std::size_t i = 0; i < n; ++i) Store<std::uint32_t>(values, i, kNanBits);
    return;
  }
  alignas(64) Bytes unpacked[kBlockMax + 1];
  if constexpr (C::kCodeBits == 4) {
    Unpack(unpacked, codes, (n + 1) / 2);
    codes = unpacked;
  }
#pragma GCC ivdep
  for (std::size_t i = 0; i < n; ++i) Store<float>(values, i, block.Value(Load<std::uint8_t>(codes, i)));
}

// Whole vectors need no loop for the rest; the compiler sees that n is a multiple of 32.
template <class F>
[[gnu::always_inline]] inline void WithKnownMultiple(std::size_t n, const F& loop) {
  if (n % kBlockMin == 0) {
    loop(n / kBlockMin * kBlockMin);
  } else {
    loop(n);
  }
}

// A codec with blocks, over f32.
template <class C>
struct InBlocks {
  [[gnu::noinline]] static void Encode(Bytes* out, const Bytes* in, std::size_t count, const EncodeJob& job) {
    for (std::size_t done = 0; done < count; done += job.block) {
      const std::size_t n = count - done < job.block ? count - done : job.block;
      if (job.dither == nullptr) {
        WithKnownMultiple(n, [&](std::size_t m) { EncodeBlock<C>(out, in, m, job.limits, ToNearest{}); });
      } else {
        EncodeBlock<C>(out, in, n, job.limits, Stochastic{SeedOf(job.dither->seed, job.dither->first + done)});
      }
      out += C::kHeaderBytes + CodeBytes(n, C::kCodeBits);
      in += n * sizeof(float);
    }
  }
  [[gnu::noinline]] static void Decode(Bytes* out, const Bytes* in, std::size_t count, std::size_t block) {
    for (; count > 0;) {
      const std::size_t n = count < block ? count : block;
      WithKnownMultiple(n, [&](std::size_t m) { DecodeBlock<C>(out, in, m); });
      in += C::kHeaderBytes + CodeBytes(n, C::kCodeBits);
      out += n * sizeof(float);
      count -= n;
    }
  }
};

// A codec that is a floating-point format E, over f32. f16: whole vectors where the CPU has F16C.
template <class E>
struct AsFormat {
  [[gnu::noinline]] static void Encode(Bytes* out, const Bytes* in, std::size_t count, const EncodeJob& job) {
    if (job.dither != nullptr) {
      const Stochastic rounding{SeedOf(job.dither->seed, job.dither->first)};
#pragma GCC ivdep
      for (std::size_t i = 0; i < count; ++i)
        Store(out, i, NarrowAtRandom(E{}, Load<std::uint32_t>(in, i), i, rounding));
      return;
    }
    std::size_t done = 0;
    if constexpr (E::kIsHalf) done = HalvesFromFloats(out, in, count);
#pragma GCC ivdep
    for (std::size_t i = done; i < count; ++i) Store(out, i, E::Narrow(Load<float>(in, i)));
  }
  // F16C only quiets a NaN; made canonical, so that all instruction sets decode to the same bits.
  [[gnu::noinline]] static void Decode(Bytes* out, const Bytes* in, std::size_t count, std::size_t) {
    std::size_t done = 0;
    if constexpr (E::kIsHalf) done = FloatsFromHalves(out, in, count);
#pragma GCC ivdep
    for (std::size_t i = done; i < count; ++i) Store(out, i, F32::Narrow(E::Widen(Load<typename E::Bits>(in, i))));
  }
};

// Over values of dtype E. Those below f32 are widened, so many at a time, and narrowed again.
template <class Loops, class E>
struct Over {
  static constexpr std::size_t kRun = kBlockMax;

  static void Encode(void* wire, const void* values, std::size_t count, const EncodeJob& job) {
    Bytes* out = static_cast<Bytes*>(wire);
    const Bytes* in = static_cast<const Bytes*>(values);
    Dither dither = job.dither != nullptr ? *job.dither : Dither{};
    EncodeJob run = job;
    if (job.dither != nullptr) run.dither = &dither;
    alignas(64) Bytes wide[kRun * sizeof(float)];
    while (count > 0) {
      const std::size_t n = count < kRun ? count : kRun;
      if constexpr (sizeof(typename E::Bits) == sizeof(float)) {
        Loops::Encode(out, in, n, run);
      } else {
        AsFormat<E>::Decode(wide, in, n, 0);
        Loops::Encode(out, wide, n, run);
      }
      in += n * sizeof(typename E::Bits);
      out += job.run_bytes;
      dither.first += n;
      count -= n;
    }
  }
  static void Decode(void* values, const void* wire, std::size_t count, const EncodeJob& job) {
    Bytes* out = static_cast<Bytes*>(values);
    const Bytes* in = static_cast<const Bytes*>(wire);
    alignas(64) Bytes wide[kRun * sizeof(float)];
    while (count > 0) {
      const std::size_t n = count < kRun ? count : kRun;
      if constexpr (sizeof(typename E::Bits) == sizeof(float)) {
        Loops::Decode(out, in, n, job.block);
      } else {
        Loops::Decode(wide, in, n, job.block);
        AsFormat<E>::Encode(out, wide, n, {});
      }
      out += n * sizeof(typename E::Bits);
      in += job.run_bytes;
      count -= n;
    }
  }
};

template <Codec kCodec>
struct LoopsInBlocks : InBlocks<typename BlockOf<kCodec>::Type> {};
template <Codec kCodec>
struct LoopsAsFormat : AsFormat<typename FormatOf<kCodec>::Type> {};
template <Codec kCodec>
using LoopsOf = std::conditional_t<HasBlocks(kCodec), LoopsInBlocks<kCodec>, LoopsAsFormat<kCodec>>;

// Every dtype that a codec encodes has its functions, and no other.
template <Codec kCodec, DType kDType, class E>
constexpr CodecFns FnsOf() {
  if constexpr ((InfoOf(kCodec).dtypes & BitOf(kDType)) == 0) {
    return {};
  } else {
    return {Over<LoopsOf<kCodec>, E>::Encode, Over<LoopsOf<kCodec>, E>::Decode};
  }
}

template <Codec kCodec>
constexpr CodecRow RowOf() {
  CodecRow row = {};
  if constexpr (InfoOf(kCodec).layout.code_bits > 0) {
    row[static_cast<std::uint8_t>(DType::kF16)] = FnsOf<kCodec, DType::kF16, F16>();
    row[static_cast<std::uint8_t>(DType::kBF16)] = FnsOf<kCodec, DType::kBF16, BF16>();
    row[static_cast<std::uint8_t>(DType::kF32)] = FnsOf<kCodec, DType::kF32, F32>();
    static_assert((InfoOf(kCodec).dtypes & ~kSmallFloats) == 0, "a dtype without loops");
  }
  return row;
}

template <std::size_t... kCodecNumbers>
constexpr std::array<CodecRow, kCodecCount> RowsOf(std::index_sequence<kCodecNumbers...>) {
  return {RowOf<static_cast<Codec>(kCodecNumbers)>()...};
}

}  // namespace
}  // namespace ringway::kernels
