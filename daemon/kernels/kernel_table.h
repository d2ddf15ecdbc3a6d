// The loops of one instruction set, as functions. Internal to the kernels layer: vector_loops.cc fills one table for
// each instruction set, reduce.cc and codec.cc call through it.
//
// The functions work on `count` elements at any alignment, as reduce.h and codec.h say. bf16 and int8 are the codecs,
// of f32 values.
#pragma once

#include <ringway/types.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "daemon/kernels/reduce.h"

namespace ringway::kernels {

using ReduceFn = void (*)(void* dst, const void* a, const void* b, std::size_t count);
using FinalizeFn = void (*)(void* dst, std::size_t count, std::uint32_t contributors);
using EncodeFn = void (*)(void* wire, const void* values, std::size_t count);
using DecodeFn = void (*)(void* values, const void* wire, std::size_t count);

using ReduceRow = std::array<ReduceFn, kReduceOpCount>;

struct KernelTable {
  std::array<ReduceRow, kDTypeCount> reduce;
  std::array<FinalizeFn, kDTypeCount> finalize;  // null for integers
  EncodeFn encode_bf16, encode_int8;
  DecodeFn decode_bf16, decode_int8;
};

// REQUIRES: IsAvailable(isa).
const KernelTable& TableOf(Isa isa);

// avx2 and avx512 exist on x86-64 only. Nothing in them may run before the processor was asked.
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
