#include "daemon/kernels/codec.h"

#include <algorithm>
#include <cstring>

#include "daemon/kernels/kernel_table.h"
#include "proto/check.h"

namespace ringway::kernels {
namespace {

// Elements decoded at a time on the stack: whole blocks, few enough to stay in the first-level cache.
constexpr std::size_t kStackElements = kBlockMax;
constexpr std::size_t kStackWireBytes = kStackElements * sizeof(double);

constexpr bool StackHoldsEveryCodec() {
  for (const CodecInfo& info : kCodecs) {
    const Encoding smallest(info.codec, info.layout.in_blocks ? kBlockMin : std::uint16_t{0});
    if (EncodedBytes(smallest, DType::kF64, kStackElements) > kStackWireBytes) return false;
  }
  return true;
}
static_assert(StackHoldsEveryCodec());

const CodecFns& FunctionsOf(Isa isa, const Encoding& encoding, DType dtype) {
  RINGWAY_CHECK(IsSupported(dtype, ReduceOp::kSum, encoding));
  return TableOf(isa).codecs[static_cast<std::uint8_t>(encoding.codec)][static_cast<std::uint8_t>(dtype)];
}

EncodeJob JobOf(const Encoding& encoding, DType dtype, const Dither* dither) {
  return {.block = encoding.block,
          .run_bytes = EncodedBytes(encoding, dtype, kBlockMax),
          .limits = LimitsOf(dtype),
          .dither = encoding.rounding == Rounding::kStochastic ? dither : nullptr};
}

}  // namespace

void EncodeOn(Isa isa, const Encoding& encoding, DType dtype, void* wire, const void* values, std::size_t count,
              const Dither* dither) {
  const EncodeFn encode = FunctionsOf(isa, encoding, dtype).encode;
  if (count == 0) return;
  if (encode == nullptr) {
    std::memcpy(wire, values, count * SizeOf(dtype));
  } else {
    encode(wire, values, count, JobOf(encoding, dtype, dither));
  }
}

void DecodeOn(Isa isa, const Encoding& encoding, DType dtype, void* values, const void* wire, std::size_t count) {
  const DecodeFn decode = FunctionsOf(isa, encoding, dtype).decode;
  if (count == 0) return;
  if (decode == nullptr) {
    std::memcpy(values, wire, count * SizeOf(dtype));
  } else {
    decode(values, wire, count, JobOf(encoding, dtype, nullptr));
  }
}

void Encode(const Encoding& encoding, DType dtype, void* wire, const void* values, std::size_t count,
            const Dither* dither) {
  EncodeOn(ActiveIsa(), encoding, dtype, wire, values, count, dither);
}

void Decode(const Encoding& encoding, DType dtype, void* values, const void* wire, std::size_t count) {
  DecodeOn(ActiveIsa(), encoding, dtype, values, wire, count);
}

void Requantize(const Encoding& encoding, DType dtype, void* values, std::size_t count, const Dither* dither) {
  const CodecFns& functions = FunctionsOf(ActiveIsa(), encoding, dtype);
  if (functions.encode == nullptr) return;
  Dither at = dither != nullptr ? *dither : Dither{};
  const EncodeJob job = JobOf(encoding, dtype, dither != nullptr ? &at : nullptr);
  unsigned char wire[kStackWireBytes];
  unsigned char* elements = static_cast<unsigned char*>(values);
  while (count > 0) {
    const std::size_t n = std::min(count, kStackElements);
    functions.encode(wire, elements, n, job);
    functions.decode(elements, wire, n, job);
    elements += n * SizeOf(dtype);
    at.first += n;
    count -= n;
  }
}

void DecodeReduce(const Encoding& encoding, DType dtype, ReduceOp op, void* dst, const void* a, const void* wire,
                  std::size_t count, const Scales& scales) {
  const DecodeFn decode = FunctionsOf(ActiveIsa(), encoding, dtype).decode;
  if (decode == nullptr) {
    Reduce(dtype, op, dst, a, wire, count, scales);
    return;
  }
  const EncodeJob job = JobOf(encoding, dtype, nullptr);
  alignas(64) unsigned char decoded[kStackElements * sizeof(double)];
  unsigned char* out = static_cast<unsigned char*>(dst);
  const unsigned char* left = static_cast<const unsigned char*>(a);
  const unsigned char* codes = static_cast<const unsigned char*>(wire);
  while (count > 0) {
    const std::size_t n = std::min(count, kStackElements);
    decode(decoded, codes, n, job);
    Reduce(dtype, op, out, left, decoded, n, scales);
    out += n * SizeOf(dtype);
    left += n * SizeOf(dtype);
    codes += job.run_bytes;
    count -= n;
  }
}

}  // namespace ringway::kernels
