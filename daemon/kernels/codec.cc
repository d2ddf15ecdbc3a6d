#include "daemon/kernels/codec.h"

#include <algorithm>
#include <cstring>

#include "daemon/kernels/kernel_table.h"
#include "proto/check.h"

namespace ringway::kernels {
namespace {

// Elements decoded at a time on the stack: whole blocks, few enough to stay in the first-level cache.
constexpr std::size_t kStackElements = 4 * kBlockElements;

constexpr std::size_t BytesOf(Codec codec, DType dtype, std::size_t count) {
  switch (codec) {
    case Codec::kNone:
      return count * SizeOf(dtype);
    case Codec::kBf16:
      return count * sizeof(std::uint16_t);
    case Codec::kInt8:
      return count + (count + kBlockElements - 1) / kBlockElements * sizeof(float);
  }
  return 0;
}

void CheckSupported(Codec codec, DType dtype) { RINGWAY_CHECK(IsSupported(dtype, ReduceOp::kSum, codec)); }

}  // namespace

std::size_t EncodedBytes(Codec codec, DType dtype, std::size_t count) { return BytesOf(codec, dtype, count); }

void EncodeOn(Isa isa, Codec codec, DType dtype, void* wire, const void* values, std::size_t count) {
  CheckSupported(codec, dtype);
  if (count == 0) return;
  switch (codec) {
    case Codec::kNone:
      std::memcpy(wire, values, count * SizeOf(dtype));
      return;
    case Codec::kBf16:
      TableOf(isa).encode_bf16(wire, values, count);
      return;
    case Codec::kInt8:
      TableOf(isa).encode_int8(wire, values, count);
      return;
  }
}

void DecodeOn(Isa isa, Codec codec, DType dtype, void* values, const void* wire, std::size_t count) {
  CheckSupported(codec, dtype);
  if (count == 0) return;
  switch (codec) {
    case Codec::kNone:
      std::memcpy(values, wire, count * SizeOf(dtype));
      return;
    case Codec::kBf16:
      TableOf(isa).decode_bf16(values, wire, count);
      return;
    case Codec::kInt8:
      TableOf(isa).decode_int8(values, wire, count);
      return;
  }
}

void Encode(Codec codec, DType dtype, void* wire, const void* values, std::size_t count) {
  EncodeOn(ActiveIsa(), codec, dtype, wire, values, count);
}

void Decode(Codec codec, DType dtype, void* values, const void* wire, std::size_t count) {
  DecodeOn(ActiveIsa(), codec, dtype, values, wire, count);
}

void Requantize(Codec codec, DType dtype, void* values, std::size_t count) {
  CheckSupported(codec, dtype);
  if (codec == Codec::kNone) return;
  unsigned char wire[std::max(BytesOf(Codec::kInt8, DType::kF32, kStackElements),
                              BytesOf(Codec::kBf16, DType::kF32, kStackElements))];
  unsigned char* at = static_cast<unsigned char*>(values);
  while (count > 0) {
    const std::size_t n = std::min(count, kStackElements);
    Encode(codec, dtype, wire, at, n);
    Decode(codec, dtype, at, wire, n);
    at += n * sizeof(float);
    count -= n;
  }
}

void DecodeReduce(Codec codec, DType dtype, ReduceOp op, void* dst, const void* a, const void* wire,
                  std::size_t count) {
  CheckSupported(codec, dtype);
  if (codec == Codec::kNone) {
    Reduce(dtype, op, dst, a, wire, count);
    return;
  }
  float decoded[kStackElements];
  unsigned char* out = static_cast<unsigned char*>(dst);
  const unsigned char* left = static_cast<const unsigned char*>(a);
  const unsigned char* codes = static_cast<const unsigned char*>(wire);
  while (count > 0) {
    const std::size_t n = std::min(count, kStackElements);
    Decode(codec, dtype, decoded, codes, n);
    Reduce(dtype, op, out, left, decoded, n);
    out += n * sizeof(float);
    left += n * sizeof(float);
    codes += BytesOf(codec, dtype, n);
    count -= n;
  }
}

}  // namespace ringway::kernels
