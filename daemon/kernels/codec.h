// How elements are represented on the wire.
//
// Sizes and dtypes are those of kCodecs (ringway/types.h). To add a codec, add a row there and its two loops to
// kCodecLoops (vector_loops.cc).
//
// Laws, held by property tests and golden vectors for every codec on every instruction set:
//   encode(decode(codes)) == codes      for all codes that encode produces
//   decode(encode(x)) depends on x only, bit for bit, wherever it is computed
// so that a forwarder may send what it decoded and every rank ends with the same bytes.
//
// none: the bytes as they are.
//
// bf16: to nearest even, past the largest finite number to infinity, any NaN to 0x7fc0.
//
// int8: a block is its f32 scale, then a signed byte an element. m = max |x|. If m is not finite, scale = quiet NaN and
// all codes are 0: every element decodes to NaN. If m < 2^-100, scale and all codes are 0. Else scale = m / 127 rounded
// UP to 16 significant bits, at most 0x1.0204p+121 (the largest with a finite 127-fold; reached by m within 2^-21 of
// the largest f32), so that 127 * scale is exact and the law holds. code = x / scale, rounded to f32 and then to the
// nearest even integer; that is within [-127, 127]. The error is at most scale / 2 (and a 2^-16th of that). -0 decodes
// to +0. A wire scale that is negative, infinite or NaN (of these an encoder produces quiet NaN only) decodes to the
// quiet NaN 0x7fc00000 in every element; any other decodes as code * scale.
//
// f16: to nearest even; from 65520 on infinity, since 65504 is the largest finite number; subnormal down to 2^-24. Any
// NaN to 0x7e00, and any NaN code to 0x7fc00000.
//
// Shapes: boundaries between calls must be multiples of kCodecBlockElements, as chunk and segment boundaries are.
// `values` holds count elements of `dtype`; `wire` holds EncodedBytes(...). No overlap. Never allocates, any thread.
#pragma once

#include <ringway/types.h>

#include <cstddef>
#include <cstdint>

#include "daemon/kernels/reduce.h"

namespace ringway::kernels {

// REQUIRES: IsSupported(dtype, any op, codec).
void Encode(Codec codec, DType dtype, void* wire, const void* values, std::size_t count);

// Any `wire` bytes are accepted, hostile ones too: they decode to some values.
void Decode(Codec codec, DType dtype, void* values, const void* wire, std::size_t count);

// values = decode(encode(values)), without a wire buffer.
void Requantize(Codec codec, DType dtype, void* values, std::size_t count);

// dst[i] = a[i] (op) decode(wire)[i], one pass; dst may equal a.
void DecodeReduce(Codec codec, DType dtype, ReduceOp op, void* dst, const void* a, const void* wire, std::size_t count);

// For tests: on one instruction set. REQUIRES: IsAvailable(isa).
void EncodeOn(Isa isa, Codec codec, DType dtype, void* wire, const void* values, std::size_t count);
void DecodeOn(Isa isa, Codec codec, DType dtype, void* values, const void* wire, std::size_t count);

}  // namespace ringway::kernels
