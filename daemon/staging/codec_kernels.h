// Codecs on a GPU: what daemon/kernels/codec.h does, with the same bytes, for device memory. No operation uses them: to
// encode before the copy over PCIe would save 0.8 ms for 64 MiB, of 50 ms that 10 Gbit/s take (tests/bench/RESULTS.md,
// "Device memory"). They stay as the proof that a codec has one definition (codec_math.h), which a GPU shares with the
// CPUs. Built where a CUDA toolkit is (RINGWAY_CUDA); tested lane by lane on the CPU (codec_blocks.h), and on a GPU
// (ctest -L gpu).
//
// `values`: count elements of dtype; `wire`: EncodedBytes(...); device memory, any alignment, no overlap but dst = a.
// A call enqueues on `stream` and returns at once, from any thread. It returns a cudaError_t; 0 means enqueued.
#pragma once

#include <ringway/types.h>

#include <cstddef>

#include "daemon/kernels/codec.h"

struct CUstream_st;

namespace ringway::staging {

using StreamHandle = CUstream_st*;

// REQUIRES: IsSupported(dtype, any op, encoding), a codec other than none.
int EncodeOnDevice(const Encoding& encoding, DType dtype, void* wire, const void* values, std::size_t count,
                   const kernels::Dither* dither, StreamHandle stream);
int DecodeOnDevice(const Encoding& encoding, DType dtype, void* values, const void* wire, std::size_t count,
                   StreamHandle stream);
// dst[i] = a[i] (op) decode(wire)[i]; kAvg sums, without scales.
int DecodeReduceOnDevice(const Encoding& encoding, DType dtype, ReduceOp op, void* dst, const void* a, const void* wire,
                         std::size_t count, StreamHandle stream);

}  // namespace ringway::staging
