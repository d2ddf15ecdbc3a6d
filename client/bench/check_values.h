// Inputs of the benchmark and the answers they must give, computed without the code under test.
//
// Every input element is a pure function of (peer, operation, index), so each rank can compute what any set of
// contributors must give, whichever of them remain when the world shrinks. Integers have all their bits at random (sums
// and products wrap alike in any order). Floating values are small integers or powers of two, so that every order of
// reduction is exact and each element has one right answer; minima and maxima get some NaNs. With a lossy codec a
// result must lie within the codec's error.
//
// Pure; any thread.
#pragma once

#include <ringway/types.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ringway::bench {

struct Reduction {
  DType dtype = DType::kF32;
  ReduceOp op = ReduceOp::kSum;
  Codec codec = Codec::kNone;
};

struct InputName {
  std::uint64_t peer = 0;
  std::uint64_t operation = 0;
};

// `values`: `count` elements of the reduction's dtype.
void FillInput(const Reduction& reduction, const InputName& name, void* values, std::size_t count);

// How many of the `count` elements of an all-reduce's `result` are wrong for these contributors (peer ids).
std::uint64_t CountWrong(const Reduction& reduction, const std::vector<std::uint64_t>& contributors,
                         std::uint64_t operation, const void* result, std::size_t count);

// What a rank got from a collective (ringway/types.h): the result is `part` of `output`.
struct Collected {
  OpKind collective = OpKind::kAllReduce;
  const void* output = nullptr;
  std::size_t count = 0;  // of the input
  Part part;
};

// How many elements of the result are wrong; all of them if its part is not what these contributors make it.
std::uint64_t CountWrong(const Reduction& reduction, const std::vector<std::uint64_t>& contributors,
                         std::uint64_t operation, const Collected& collected);

// IEEE binary16 and bfloat16 as numbers. Encoding is exact; REQUIRES: the value is a normal number of the type, or 0.
double DecodeF16(std::uint16_t bits);
double DecodeBf16(std::uint16_t bits);
std::uint16_t EncodeF16(double value);
std::uint16_t EncodeBf16(double value);

}  // namespace ringway::bench
