// Elements of floating dtypes from numbers, and back.
#pragma once

#include <ringway/types.h>

#include <cstddef>
#include <vector>

#include "daemon/kernels/codec.h"
#include "tests/daemon/collective/world.h"

namespace ringway::collective {

// The codec by which f32 becomes the dtype. REQUIRES: a floating dtype up to f32.
inline Codec CastTo(DType dtype) {
  if (dtype == DType::kF32) return Codec::kNone;
  return dtype == DType::kF16 ? Codec::kF16 : Codec::kBf16;
}

template <typename T>
std::vector<std::byte> ElementsOf(DType dtype, const std::vector<T>& numbers) {
  if (dtype == DType::kF64) return Bytes(std::vector<double>(numbers.begin(), numbers.end()));
  std::vector<float> floats;
  for (const T number : numbers) floats.push_back(static_cast<float>(number));
  std::vector<std::byte> elements(floats.size() * SizeOf(dtype));
  kernels::Encode(CastTo(dtype), DType::kF32, elements.data(), floats.data(), floats.size());
  return elements;
}

inline std::vector<double> NumbersOf(DType dtype, const std::vector<std::byte>& elements) {
  if (dtype == DType::kF64) return Values<double>(elements);
  std::vector<float> values(elements.size() / SizeOf(dtype));
  kernels::Decode(CastTo(dtype), DType::kF32, values.data(), elements.data(), values.size());
  return {values.begin(), values.end()};
}

}  // namespace ringway::collective
