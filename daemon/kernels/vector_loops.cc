// The loops over elements, written once and compiled once for each instruction set (see CMakeLists.txt): g++ vectorises
// them, and tests/bench/kernels_bench.cc shows whether it did.
//
// `ivdep` is true everywhere below: an output either is an input, element for element, or does not overlap it.
#include "daemon/kernels/codec_loops.h"
#include "daemon/kernels/elements.h"
#include "daemon/kernels/half_vectors.h"
#include "daemon/kernels/kernel_table.h"
#include "daemon/kernels/operations.h"

namespace ringway::kernels::RINGWAY_KERNELS_ISA {
namespace {

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
void ScaledSumLoop(void* dst, const void* a, const void* b, std::size_t count, const Scales& scales) {
  using Bits = typename E::Bits;
  using Wide = typename E::Wide;
  Bytes* const out = static_cast<Bytes*>(dst);
  const Bytes* const left = static_cast<const Bytes*>(a);
  const Bytes* const right = static_cast<const Bytes*>(b);
  const Wide scale_a = static_cast<Wide>(scales.a), scale_b = static_cast<Wide>(scales.b);
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) {
    const Wide x = E::Widen(Load<Bits>(left, i)) * scale_a, y = E::Widen(Load<Bits>(right, i)) * scale_b;
    Store<Bits>(out, i, E::Narrow(x + y));
  }
}

template <class E>
void FinalizeLoop(void* dst, std::size_t count, double divisor) {
  using Bits = typename E::Bits;
  using Wide = typename E::Wide;
  Bytes* const out = static_cast<Bytes*>(dst);
  const Wide by = static_cast<Wide>(divisor);
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) Store<Bits>(out, i, E::Narrow(E::Widen(Load<Bits>(out, i)) / by));
}

// Magnitudes order like integers, with infinity and NaN on top.
template <class E>
bool AreFiniteLoop(const void* values, std::size_t count) {
  using Bits = typename E::Bits;
  const Bytes* const in = static_cast<const Bytes*>(values);
  Bits top = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const Bits magnitude = static_cast<Bits>(Load<Bits>(in, i) & E::kMagnitude);
    top = top < magnitude ? magnitude : top;
  }
  return top < E::kInfinityBits;
}

// f16: whole vectors where the CPU has F16C, then the portable loop for the rest.
template <class Op>
void ReduceF16(void* dst, const void* a, const void* b, std::size_t count) {
  Bytes* const out = static_cast<Bytes*>(dst);
  const Bytes* const left = static_cast<const Bytes*>(a);
  const Bytes* const right = static_cast<const Bytes*>(b);
  const std::size_t done = ApplyToHalves(out, left, right, count, [](auto x, auto y) { return Op::Arith(x, y); });
  const std::size_t offset = done * sizeof(F16::Bits);
  ReduceLoop<F16, Op>(out + offset, left + offset, right + offset, count - done);
}

void ScaledSumF16(void* dst, const void* a, const void* b, std::size_t count, const Scales& scales) {
  Bytes* const out = static_cast<Bytes*>(dst);
  const Bytes* const left = static_cast<const Bytes*>(a);
  const Bytes* const right = static_cast<const Bytes*>(b);
  const float scale_a = static_cast<float>(scales.a), scale_b = static_cast<float>(scales.b);
  const std::size_t done =
      ApplyToHalves(out, left, right, count, [scale_a, scale_b](auto x, auto y) { return x * scale_a + y * scale_b; });
  const std::size_t offset = done * sizeof(F16::Bits);
  ScaledSumLoop<F16>(out + offset, left + offset, right + offset, count - done, scales);
}

void FinalizeF16(void* dst, std::size_t count, double divisor) {
  Bytes* const out = static_cast<Bytes*>(dst);
  const float by = static_cast<float>(divisor);
  const std::size_t done = ApplyToHalves(out, out, out, count, [by](auto x, auto) { return x / by; });
  FinalizeLoop<F16>(out + done * sizeof(F16::Bits), count - done, divisor);
}

inline bool IsFinite(float x) { return (BitCast<std::uint32_t>(x) & kMagnitudeBits) < kInfinityBits; }
inline float FiniteOr0(float x) { return IsFinite(x) ? x : 0.0f; }

template <class E>
void AddResidualLoop(void* sum, float* loss, const void* x, const float* residual, std::size_t count) {
  using Bits = typename E::Bits;
  Bytes* const out = static_cast<Bytes*>(sum);
  const Bytes* const in = static_cast<const Bytes*>(x);
  const float largest = E::Widen(E::kLargestBits);
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) {
    const float wide = E::Widen(Load<Bits>(in, i));
    const float both = wide + residual[i];
    const float below = both < largest ? both : largest;
    const float within = below > -largest ? below : -largest;
    const Bits rounded = E::Narrow(IsFinite(wide) ? within : both);
    const double exact = static_cast<double>(wide) + static_cast<double>(residual[i]);
    loss[i] = FiniteOr0(static_cast<float>(exact - static_cast<double>(E::Widen(rounded))));
    Store<Bits>(out, i, rounded);
  }
}

template <class E>
void NoteResidualLoop(float* loss, const void* value, const void* decoded, std::size_t count, float factor) {
  using Bits = typename E::Bits;
  const Bytes* const left = static_cast<const Bytes*>(value);
  const Bytes* const right = static_cast<const Bytes*>(decoded);
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) {
    const float lost = (E::Widen(Load<Bits>(left, i)) - E::Widen(Load<Bits>(right, i))) * factor;
    loss[i] = FiniteOr0(loss[i] + lost);
  }
}

template <class E>
void KeepInputLoop(float* loss, const void* x, const float* residual, std::size_t count) {
  using Bits = typename E::Bits;
  const Bytes* const in = static_cast<const Bytes*>(x);
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) {
    const float both = E::Widen(Load<Bits>(in, i)) + residual[i];
    loss[i] = IsFinite(both) ? both : residual[i];
  }
}

template <class E>
constexpr FeedbackFns kFeedback = {AddResidualLoop<E>, NoteResidualLoop<E>, KeepInputLoop<E>};

using U8 = Integer<std::uint8_t, std::uint32_t>;
using I8 = Integer<std::int8_t, std::uint32_t>;
using U16 = Integer<std::uint16_t, std::uint32_t>;
using I16 = Integer<std::int16_t, std::uint32_t>;
using U32 = Integer<std::uint32_t, std::uint32_t>;
using I32 = Integer<std::int32_t, std::uint32_t>;
using U64 = Integer<std::uint64_t, std::uint64_t>;
using I64 = Integer<std::int64_t, std::uint64_t>;

// The order is that of ReduceOp. Average sums; floats are scaled already.
template <class E>
constexpr ReduceRow kRow = {ReduceLoop<E, Sum>, ReduceLoop<E, Sum>, ReduceLoop<E, Prod>, ReduceLoop<E, Min>,
                            ReduceLoop<E, Max>};
template <>
constexpr ReduceRow kRow<F16> = {ReduceF16<Sum>, ReduceF16<Sum>, ReduceF16<Prod>, ReduceLoop<F16, Min>,
                                 ReduceLoop<F16, Max>};

// The order is that of DType.
constexpr KernelTable kTable = {
    .reduce = {kRow<U8>, kRow<I8>, kRow<U16>, kRow<I16>, kRow<U32>, kRow<I32>, kRow<U64>, kRow<I64>, kRow<F16>,
               kRow<BF16>, kRow<F32>, kRow<F64>},
    .scaled_sum = {nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, ScaledSumF16,
                   ScaledSumLoop<BF16>, ScaledSumLoop<F32>, ScaledSumLoop<F64>},
    .finalize = {nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, FinalizeF16,
                 FinalizeLoop<BF16>, FinalizeLoop<F32>, FinalizeLoop<F64>},
    .are_finite = {nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, AreFiniteLoop<F16>,
                   AreFiniteLoop<BF16>, AreFiniteLoop<F32>, AreFiniteLoop<F64>},
    .feedback = {FeedbackFns{}, {}, {}, {}, {}, {}, {}, {}, kFeedback<F16>, kFeedback<BF16>, kFeedback<F32>, {}},
    .codecs = RowsOf(std::make_index_sequence<kCodecCount>()),
};

}  // namespace

const KernelTable& Table() { return kTable; }

}  // namespace ringway::kernels::RINGWAY_KERNELS_ISA
