// A second definition of every kernel, one element at a time, to test the first against. It shares no code and no
// method with it: floats are numbers here (taken apart with frexp and ldexp, computed in a wider format and rounded
// once), where the kernels shift and compare bits.
#pragma once

#include <ringway/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "daemon/kernels/reduce.h"

namespace ringway::kernels::reference {

// Elements are their bits, in the low bits of an integer.
using Bits = std::uint64_t;

// a (op) b; kAvg sums.
Bits Combine(DType dtype, ReduceOp op, Bits a, Bits b);

// a * scales.a + b * scales.b. REQUIRES: a floating dtype.
Bits ScaledSum(DType dtype, Bits a, Bits b, const Scales& scales);

// The quotient that Finalize makes of one element. REQUIRES: a floating dtype.
Bits Divide(DType dtype, Bits a, double divisor);

// The number that a float's bits stand for.
double ToNumber(DType dtype, Bits bits);

// The bits of the number of this format that is nearest to x, ties to even. REQUIRES: a floating dtype.
Bits ToBits(DType dtype, double x);

// The wire bytes of `values` of `dtype`, rounded to nearest even. REQUIRES: a lossy codec.
std::vector<unsigned char> Encode(const Encoding& encoding, DType dtype, const std::vector<unsigned char>& values);

// Bits that are likely to break a kernel: limits, signed zeros, infinities, NaNs of every kind, subnormals.
std::vector<Bits> Specials(DType dtype);

// `count` elements of `dtype`: specials and random bits, the same for the same seed.
std::vector<unsigned char> Mixture(DType dtype, std::size_t count, std::uint64_t seed);

Bits ElementAt(DType dtype, const unsigned char* elements, std::size_t i);
void SetElement(DType dtype, unsigned char* elements, std::size_t i, Bits bits);

// The instruction sets that this processor has.
std::vector<Isa> Isas();

}  // namespace ringway::kernels::reference
