// How elements are represented on the wire.
//
// Sizes and dtypes are those of kCodecs (ringway/types.h). To add a codec, add a row there and its arithmetic to
// BlockOf or FormatOf (codec_math.h).
//
// Laws, held by property tests and golden vectors for every codec, dtype and block size on every instruction set:
//   encode(decode(codes)) == codes      to nearest, for all codes that encode produces, however it rounds
//   decode(encode(x)) depends on x only (and the dither), bit for bit, wherever it is computed
// so that a forwarder may send what it decoded and every rank ends with the same bytes.
//
// Elements are widened to f32 before they are encoded, and decoded ones are narrowed to their dtype, to nearest even.
// Arithmetic is f32's, each operation rounded, unless it says otherwise. m = max |x| of a block. A block with an
// infinity or a NaN decodes to the quiet NaN in every element, but where a codec has no blocks.
//
// none: the bytes as they are.
//
// bf16: to nearest even, past the largest finite number to infinity, any NaN to 0x7fc0.
//
// f16: to nearest even; from 65520 on infinity, since 65504 is the largest finite number; subnormal down to 2^-24. Any
// NaN to 0x7e00, and any NaN code to 0x7fc00000.
//
// int8, int4: an f32 scale, then a code of 8 or 4 bits an element. With top = 127 or 7: if m < 2^-100, scale and all
// codes are 0. Else scale = m / top rounded UP to 16 significant bits, at most 0x1.0204p+121 or 0x1.2492p+125 (the
// largest with a finite top-fold), so that top * scale is exact, or rounds to m in a narrower dtype, and the law holds.
// code = x / scale to nearest even; that is within [-top, top]. The error is at most scale / 2 (and a 2^-16th of that).
// -0 decodes to +0. A NaN block has the scale 0x7fc00000 and codes 0. A wire scale that is negative, infinite or NaN
// decodes to NaN in every element; any other as code * scale.
//
// int8_zp, int4_zp: the block's minimum and maximum as f32, exactly, then an unsigned code an element, of 255 or 15
// steps. step = (max - min) / steps, in double and rounded to f32. code = (x - min) / step to nearest even. The last
// code decodes to max, any other to min + code * step. So both ends travel exactly, constant blocks too. x is first
// clamped to +-2^126. If max - min < 2^-100, max = min and all codes are 0. A NaN block has both of them 0x7fc00000 and
// codes 0; a header that is not finite, or has min > max, decodes to NaN.
//
// fp8_e4m3, fp8_e5m2: a byte h, then the OCP format's byte an element, for numbers in units of 2^(h - 127) (an E8M0
// scale), to nearest even. h is the least for which no code is past the format's largest finite number (448, 57344); at
// most so that this number is finite in the dtype, and what is past it becomes it. If m < 2^-100, h and all codes are
// 0. A NaN block has h = 255 and codes 0. h = 0 decodes as a scale of 0. What no encoder produces decodes as OCP says,
// times the scale.
//
// Stochastic rounding adds a dither to x in units of the code's step before it is rounded to nearest (codec_math.h has
// the hash). Not to m, nor to min and max, so that a block's header is the same when it is encoded again; and not in a
// block whose step is below the dtype's last place at its largest magnitude, which nearest codes carry exactly.
//
// Packing: of two codes of 4 bits, the earlier one is in the low half; a last one alone has a 0 beside it.
//
// Shapes: boundaries between calls must be multiples of the block, as chunk and segment boundaries are.
// `values` holds count elements of `dtype`; `wire` holds EncodedBytes(...). No overlap. Never allocates, any thread.
#pragma once

#include <ringway/types.h>

#include <cstddef>
#include <cstdint>

#include "daemon/kernels/reduce.h"

namespace ringway::kernels {

// The input of stochastic rounding: a seed, and where in the buffer the first element is. Without it, or if the
// encoding is not stochastic, all rounding is to nearest even.
struct Dither {
  std::uint64_t seed = 0;
  std::uint64_t first = 0;
};

// REQUIRES: IsSupported(dtype, any op, encoding).
void Encode(const Encoding& encoding, DType dtype, void* wire, const void* values, std::size_t count,
            const Dither* dither = nullptr);

// Any `wire` bytes are accepted, hostile ones too: they decode to some values.
void Decode(const Encoding& encoding, DType dtype, void* values, const void* wire, std::size_t count);

// values = decode(encode(values)), without a wire buffer.
void Requantize(const Encoding& encoding, DType dtype, void* values, std::size_t count, const Dither* dither = nullptr);

// Reduce of a and decode(wire), one pass; dst may equal a.
void DecodeReduce(const Encoding& encoding, DType dtype, ReduceOp op, void* dst, const void* a, const void* wire,
                  std::size_t count, const Scales& scales = {});

// Tests use it: encodes on one instruction set. REQUIRES: IsAvailable(isa).
void EncodeOn(Isa isa, const Encoding& encoding, DType dtype, void* wire, const void* values, std::size_t count,
              const Dither* dither = nullptr);
void DecodeOn(Isa isa, const Encoding& encoding, DType dtype, void* values, const void* wire, std::size_t count);

}  // namespace ringway::kernels
