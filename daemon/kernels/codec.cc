#include "daemon/kernels/codec.h"

#include <algorithm>
#include <cstring>

#include "daemon/kernels/kernel_table.h"
#include "proto/check.h"

namespace ringway::kernels {
namespace {

// Elements decoded at a time on the stack: whole blocks, few enough to stay in the first-level cache.
constexpr std::size_t kStackElements = 4 * kCodecBlockElements;

constexpr std::size_t StackWireBytes() {
  std::size_t bytes = 0;
  for (const CodecInfo& info : kCodecs) bytes = std::max(bytes, EncodedBytes(info.codec, DType::kF64, kStackElements));
  return bytes;
}

const CodecFns& FunctionsOf(Isa isa, Codec codec, DType dtype) {
  RINGWAY_CHECK(IsSupported(dtype, ReduceOp::kSum, codec));
  return TableOf(isa).codecs[static_cast<std::uint8_t>(codec)][static_cast<std::uint8_t>(dtype)];
}

}  // namespace

void EncodeOn(Isa isa, Codec codec, DType dtype, void* wire, const void* values, std::size_t count) {
  const EncodeFn encode = FunctionsOf(isa, codec, dtype).encode;
  if (count == 0) return;
  if (encode == nullptr) {
    std::memcpy(wire, values, count * SizeOf(dtype));
  } else {
    encode(wire, values, count);
  }
}

void DecodeOn(Isa isa, Codec codec, DType dtype, void* values, const void* wire, std::size_t count) {
  const DecodeFn decode = FunctionsOf(isa, codec, dtype).decode;
  if (count == 0) return;
  if (decode == nullptr) {
    std::memcpy(values, wire, count * SizeOf(dtype));
  } else {
    decode(values, wire, count);
  }
}

void Encode(Codec codec, DType dtype, void* wire, const void* values, std::size_t count) {
  EncodeOn(ActiveIsa(), codec, dtype, wire, values, count);
}

void Decode(Codec codec, DType dtype, void* values, const void* wire, std::size_t count) {
  DecodeOn(ActiveIsa(), codec, dtype, values, wire, count);
}

void Requantize(Codec codec, DType dtype, void* values, std::size_t count) {
  const CodecFns& functions = FunctionsOf(ActiveIsa(), codec, dtype);
  if (functions.encode == nullptr) return;
  unsigned char wire[StackWireBytes()];
  unsigned char* at = static_cast<unsigned char*>(values);
  while (count > 0) {
    const std::size_t n = std::min(count, kStackElements);
    functions.encode(wire, at, n);
    functions.decode(at, wire, n);
    at += n * SizeOf(dtype);
    count -= n;
  }
}

void DecodeReduce(Codec codec, DType dtype, ReduceOp op, void* dst, const void* a, const void* wire,
                  std::size_t count) {
  const DecodeFn decode = FunctionsOf(ActiveIsa(), codec, dtype).decode;
  if (decode == nullptr) {
    Reduce(dtype, op, dst, a, wire, count);
    return;
  }
  alignas(64) unsigned char decoded[kStackElements * sizeof(double)];
  unsigned char* out = static_cast<unsigned char*>(dst);
  const unsigned char* left = static_cast<const unsigned char*>(a);
  const unsigned char* codes = static_cast<const unsigned char*>(wire);
  while (count > 0) {
    const std::size_t n = std::min(count, kStackElements);
    decode(decoded, codes, n);
    Reduce(dtype, op, out, left, decoded, n);
    out += n * SizeOf(dtype);
    left += n * SizeOf(dtype);
    codes += EncodedBytes(codec, dtype, n);
    count -= n;
  }
}

}  // namespace ringway::kernels
