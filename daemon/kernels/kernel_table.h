// The loops of one instruction set, as functions. Internal to the kernels layer: vector_loops.cc fills one table for
// each instruction set, reduce.cc and codec.cc call through it.
//
// The functions work on `count` elements at any alignment, as reduce.h and codec.h say.
#pragma once

#include <ringway/types.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "daemon/kernels/codec.h"
#include "daemon/kernels/reduce.h"

namespace ringway::kernels {

using ReduceFn = void (*)(void* dst, const void* a, const void* b, std::size_t count);
using ScaledSumFn = void (*)(void* dst, const void* a, const void* b, std::size_t count, const Scales& scales);
using FinalizeFn = void (*)(void* dst, std::size_t count, double divisor);
using AreFiniteFn = bool (*)(const void* values, std::size_t count);

// The functions of error feedback; null except for floats up to f32.
struct FeedbackFns {
  void (*add)(void* sum, float* loss, const void* x, const float* residual, std::size_t count) = nullptr;
  void (*note)(float* loss, const void* value, const void* decoded, std::size_t count, float factor) = nullptr;
  void (*keep)(float* loss, const void* x, const float* residual, std::size_t count) = nullptr;
};

// The limits of the dtype that codecs need.
struct DTypeLimits {
  std::uint32_t fp8_largest = 0;  // bits, as f32: 1.75 times its greatest power of two
  float ulp = 0;                  // of a number in [1, 2)
  float least = 0;                // its least subnormal number
};

constexpr DTypeLimits LimitsOf(DType dtype) {
  if (dtype == DType::kF16) return {0x47600000, 0x1p-10f, 0x1p-24f};
  return {0x7f600000, dtype == DType::kBF16 ? 0x1p-7f : 0x1p-23f, 0.0f};
}

// The parameters of an encoding for a codec's loops.
struct EncodeJob {
  std::size_t block = 0;      // elements; 0: the codec has no blocks
  std::size_t run_bytes = 0;  // of kBlockMax elements on the wire
  DTypeLimits limits;
  const Dither* dither = nullptr;  // null: to nearest even
};
using EncodeFn = void (*)(void* wire, const void* values, std::size_t count, const EncodeJob& job);
using DecodeFn = void (*)(void* values, const void* wire, std::size_t count, const EncodeJob& job);

using ReduceRow = std::array<ReduceFn, kReduceOpCount>;

// Null if the codec leaves elements of this dtype as they are in memory, or does not take them.
struct CodecFns {
  EncodeFn encode = nullptr;
  DecodeFn decode = nullptr;
};
using CodecRow = std::array<CodecFns, kDTypeCount>;

struct KernelTable {
  std::array<ReduceRow, kDTypeCount> reduce;
  // Null for integers.
  std::array<ScaledSumFn, kDTypeCount> scaled_sum;
  std::array<FinalizeFn, kDTypeCount> finalize;
  std::array<AreFiniteFn, kDTypeCount> are_finite;
  std::array<FeedbackFns, kDTypeCount> feedback;
  std::array<CodecRow, kCodecCount> codecs;
};

// REQUIRES: IsAvailable(isa).
const KernelTable& TableOf(Isa isa);

// avx2 and avx512 exist on x86-64 only. Nothing in them may run before the CPU was checked (IsAvailable).
namespace scalar {
const KernelTable& Table();
}
namespace avx2 {
const KernelTable& Table();
}
namespace avx512 {
const KernelTable& Table();
}

}  // namespace ringway::kernels
