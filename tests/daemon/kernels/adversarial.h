// Values that are made to break a codec. Deterministic: the same for the same seed.
#pragma once

#include <ringway/types.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ringway::kernels {

std::uint32_t BitsOf(float x);
float FloatOf(std::uint32_t bits);

// Returns `count` elements of `dtype`. The elements of each block are of one sort (ordinary, tiny, huge, mixed,
// constant, narrow, on the codes' grid and others); some blocks have a negative zero, an infinity or a NaN.
std::vector<unsigned char> Adversarial(DType dtype, std::size_t count, std::uint64_t seed);

// Elements of `dtype` from numbers, to nearest even, and back.
std::vector<unsigned char> ElementsOf(DType dtype, const std::vector<float>& values);
std::vector<float> FloatsOf(DType dtype, const std::vector<unsigned char>& elements);

}  // namespace ringway::kernels
