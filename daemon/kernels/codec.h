// How elements are represented on the wire.
//
// kNone: as in memory, any dtype. kBf16: f32 rounded to bf16 (nearest even), 2 bytes an element. kInt8: blocks of 256
// elements (the last may be shorter), each a 4-byte f32 scale and one signed byte an element, value = code * scale.
//
// Laws, held by property tests and golden vectors for every codec on every instruction set:
//   encode(decode(codes)) == codes      for all codes that encode produces
//   decode(encode(x)) depends on x only, bit for bit, wherever it is computed
// so that a forwarder may send what it decoded and every rank ends with the same bytes.
//
// int8 in detail: m = max |x| of the finite elements. scale = m / 127 rounded UP to 16 significant bits, so 127 * scale is
// exact in f32 and the law holds. m below 2^-100 flushes to scale 0, all codes 0. code = x / scale rounded to nearest
// even, within [-127, 127]. A block with a NaN or infinity has scale = quiet NaN and all codes 0: it decodes to NaN in
// every element. -0 decodes to +0.
//
// Shapes: boundaries between calls must be multiples of kBlockElements, as chunk and segment boundaries are. `values` holds
// count elements of `dtype`; `wire` holds EncodedBytes(...). No overlap. Never allocates, any thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include <ringway/types.h>

#include "daemon/kernels/reduce.h"

namespace ringway::kernels {

inline constexpr std::size_t kBlockElements = 256;

std::size_t EncodedBytes(Codec codec, DType dtype, std::size_t count);

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
