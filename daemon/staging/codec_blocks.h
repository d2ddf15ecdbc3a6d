// A block of a codec, encoded and decoded by lanes that work together: the threads of a CUDA block, or one thread of a
// CPU, which is how tests run it. The arithmetic is codec_math.h's, so all lanes of all kinds give the same bytes. Not
// on the path of an operation (codec_kernels.h says why).
//
// A Lane has index(), size(), and Greatest(x) and Least(x) over all lanes, for which they wait for each other.
// Each lane takes every size()-th element, or pair of codes.
//
// E is the dtype of the values (elements.h). Any alignment; n is 1 to kBlockMax; no overlap.
#pragma once

#include <ringway/types.h>

#include <cstddef>
#include <cstdint>

#include "daemon/kernels/codec_math.h"
#include "daemon/kernels/elements.h"
#include "daemon/kernels/kernel_table.h"

namespace ringway::staging {
namespace {

using kernels::BitCast;
using kernels::DTypeLimits;
using kernels::Load;
using kernels::Store;
using kernels::ToNearest;

template <class E>
RINGWAY_KERNEL inline float ElementAt(const unsigned char* values, std::size_t i) {
  return E::Widen(Load<typename E::Bits>(values, i));
}

template <class C, class E, class R, class Lane>
RINGWAY_KERNEL inline void EncodeCodesBy(const Lane& lane, unsigned char* codes, const unsigned char* values,
                                         std::size_t n, const C& block, const R& rounding, float m) {
  if constexpr (C::kCodeBits == 8) {
    for (std::size_t i = lane.index(); i < n; i += lane.size())
      codes[i] = block.Code(ElementAt<E>(values, i), i, rounding, m);
  } else {
    for (std::size_t pair = lane.index(); pair < (n + 1) / 2; pair += lane.size()) {
      const std::size_t i = 2 * pair;
      const unsigned low = block.Code(ElementAt<E>(values, i), i, rounding, m) & 0x0fU;
      const unsigned high = i + 1 < n ? block.Code(ElementAt<E>(values, i + 1), i + 1, rounding, m) & 0x0fU : 0;
      codes[pair] = static_cast<unsigned char>(low | high << 4);
    }
  }
}

template <class C, class Lane>
RINGWAY_KERNEL inline void ClearCodesBy(const Lane& lane, unsigned char* codes, std::size_t n) {
  for (std::size_t i = lane.index(); i < (n * C::kCodeBits + 7) / 8; i += lane.size()) codes[i] = 0;
}

template <class C, class E, class R, class Lane>
RINGWAY_KERNEL inline void EncodeBlockBy(const Lane& lane, unsigned char* wire, const unsigned char* values,
                                         std::size_t n, const DTypeLimits& limits, const R& rounding) {
  std::int32_t top = 0, low = 0x7fffffff, high = -0x7fffffff - 1;
  for (std::size_t i = lane.index(); i < n; i += lane.size()) {
    const auto bits = BitCast<std::int32_t>(ElementAt<E>(values, i));
    const auto magnitude = static_cast<std::int32_t>(bits & static_cast<std::int32_t>(kernels::kMagnitudeBits));
    const std::int32_t order = kernels::OrderOf(bits);
    top = top < magnitude ? magnitude : top;
    low = order < low ? order : low;
    high = high < order ? order : high;
  }
  const float m = BitCast<float>(lane.Greatest(top));
  unsigned char* const codes = wire + C::kHeaderBytes;
  const bool writes_header = lane.index() == 0;
  if (BitCast<std::uint32_t>(m) >= kernels::kInfinityBits) {
    if (writes_header) C::WriteNan(wire);
    ClearCodesBy<C>(lane, codes, n);
    return;
  }
  C block;
  bool flushed = false;
  if constexpr (C::kTwoEnds) {
    block =
        C::Of(BitCast<float>(kernels::OrderOf(lane.Least(low))), BitCast<float>(kernels::OrderOf(lane.Greatest(high))));
    flushed = !(block.step > 0);
    if (writes_header) block.Write(wire);
  } else {
    flushed = m < kernels::kFlushBelow;
    if (!flushed) block = C::Of(m, limits.fp8_largest);
    if (writes_header && flushed) C::WriteFlushed(wire);
    if (writes_header && !flushed) block.Write(wire);
  }
  if (flushed) {
    ClearCodesBy<C>(lane, codes, n);
  } else if (R::kIsRandom && !block.IsCoarserThan(limits.ulp, limits.least)) {
    EncodeCodesBy<C, E>(lane, codes, values, n, block, ToNearest{}, C::kTwoEnds ? 0.0f : m);
  } else {
    EncodeCodesBy<C, E>(lane, codes, values, n, block, rounding, C::kTwoEnds ? 0.0f : m);
  }
}

// out[i] = combine(i, decoded i): what is made of the bits of each element.
template <class C, class E, class Lane, class Combine>
RINGWAY_KERNEL inline void DecodeBlockBy(const Lane& lane, unsigned char* out, const unsigned char* wire, std::size_t n,
                                         const Combine& combine) {
  C block;
  const bool is_numbers = C::Read(wire, &block);
  const unsigned char* const codes = wire + C::kHeaderBytes;
  for (std::size_t i = lane.index(); i < n; i += lane.size()) {
    unsigned code = C::kCodeBits == 8 ? codes[i] : codes[i / 2];
    if (C::kCodeBits == 4) code = i % 2 == 0 ? code & 0x0fU : code >> 4;
    const float value = is_numbers ? block.Value(static_cast<std::uint8_t>(code)) : BitCast<float>(kernels::kNanBits);
    Store<typename E::Bits>(out, i, combine(i, E::Narrow(value)));
  }
}

}  // namespace
}  // namespace ringway::staging
