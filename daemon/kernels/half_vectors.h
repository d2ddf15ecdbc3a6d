// f16 a vector at a time, where the processor converts it: the portable definition in elements.h costs some twenty
// instructions an element, the conversion instruction one, with the same results once NaN is made canonical.
//
// Internal to vector_loops.cc. Internal linkage for the reason given in elements.h; the intrinsics are always inlined.
#pragma once

#include <cstddef>

#include "daemon/kernels/elements.h"

#if defined(__F16C__)
#include <immintrin.h>
#endif

namespace ringway::kernels {
namespace {

#if defined(__F16C__)

constexpr std::size_t kHalfLanes = sizeof(__m128i) / sizeof(F16::Bits);

inline __m256 WidenHalves(__m128i bits) { return _mm256_cvtph_ps(bits); }
inline __m256 Canonical(__m256 wide) {
  const __m256 nan = _mm256_cmp_ps(wide, wide, _CMP_UNORD_Q);
  return _mm256_blendv_ps(wide, _mm256_set1_ps(__builtin_nanf("")), nan);
}
inline __m128i NarrowHalves(__m256 wide) { return _mm256_cvtps_ph(Canonical(wide), _MM_FROUND_TO_NEAREST_INT); }

// dst = arith(a, b) for the leading elements that fill whole vectors; returns their number. dst may equal a or b.
template <class Arith>
inline std::size_t ApplyToHalves(unsigned char* dst, const unsigned char* a, const unsigned char* b, std::size_t count,
                                 Arith arith) {
  const std::size_t vectors = count / kHalfLanes;
  for (std::size_t i = 0; i < vectors; ++i) {
    Store(dst, i, NarrowHalves(arith(WidenHalves(Load<__m128i>(a, i)), WidenHalves(Load<__m128i>(b, i)))));
  }
  return vectors * kHalfLanes;
}

// Both convert the leading elements that fill whole vectors, and return their number.
inline std::size_t HalvesFromFloats(unsigned char* halves, const unsigned char* floats, std::size_t count) {
  const std::size_t vectors = count / kHalfLanes;
  for (std::size_t i = 0; i < vectors; ++i) Store(halves, i, NarrowHalves(Load<__m256>(floats, i)));
  return vectors * kHalfLanes;
}
inline std::size_t FloatsFromHalves(unsigned char* floats, const unsigned char* halves, std::size_t count) {
  const std::size_t vectors = count / kHalfLanes;
  for (std::size_t i = 0; i < vectors; ++i) Store(floats, i, Canonical(WidenHalves(Load<__m128i>(halves, i))));
  return vectors * kHalfLanes;
}

#else

inline std::size_t HalvesFromFloats(unsigned char*, const unsigned char*, std::size_t) { return 0; }
inline std::size_t FloatsFromHalves(unsigned char*, const unsigned char*, std::size_t) { return 0; }

template <class Arith>
inline std::size_t ApplyToHalves(unsigned char*, const unsigned char*, const unsigned char*, std::size_t, Arith) {
  return 0;
}

#endif

}  // namespace
}  // namespace ringway::kernels
