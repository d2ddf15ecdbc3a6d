// The loops of one instruction set, as functions. Internal to the kernels layer: vector_loops.cc fills one table for
// each instruction set, reduce.cc and codec.cc call through it.
//
// The functions work on `count` elements at any alignment, as reduce.h and codec.h say.
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

// Null if the codec leaves elements of this dtype as they are in memory, or does not take them.
struct CodecFns {
  EncodeFn encode = nullptr;
  DecodeFn decode = nullptr;
};
using CodecRow = std::array<CodecFns, kDTypeCount>;

struct KernelTable {
  std::array<ReduceRow, kDTypeCount> reduce;
  std::array<FinalizeFn, kDTypeCount> finalize;  // null for integers
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
