// Inputs of the benchmark and their expected results, computed without the code under test.
//
// Every input element is a pure function of (peer, operation, index), so each rank can compute what any set of
// contributors must yield, whichever of them remain when the world shrinks. All bits of integers are random (sums and
// products wrap alike in any order). Floating values are small integers or powers of two, so that every order of
// reduction is exact and each element has one right value; minima and maxima get some NaNs. With a lossy codec a result
// must lie within the codec's error.
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
  Encoding codec = Codec::kNone;
  bool feedback = false;  // what was lost before is added
};

// The rank from and to which collectives go that have a root.
inline constexpr std::uint32_t kRoot = 0;

struct InputName {
  std::uint64_t peer = 0;
  std::uint64_t operation = 0;
};

// `values`: `count` elements of the reduction's dtype.
void FillInput(const Reduction& reduction, const InputName& name, void* values, std::size_t count);

// Returns how many of the `count` elements of an all-reduce's `result` are wrong for these contributors (peer ids).
std::uint64_t CountWrong(const Reduction& reduction, const std::vector<std::uint64_t>& contributors,
                         std::uint64_t operation, const void* result, std::size_t count);

// A rank's result of a collective (ringway/types.h): `part` of `output`.
struct Collected {
  OpKind collective = OpKind::kAllReduce;
  const void* output = nullptr;
  std::size_t count = 0;  // as SizesOf takes it
  Part part;
  std::uint32_t rank = 0;
  std::size_t absent = 0;  // members whose inputs are not in it: they may have encoded it, too
};

// Returns how many elements of the result are wrong; all of them if `part` does not match the contributors.
std::uint64_t CountWrong(const Reduction& reduction, const std::vector<std::uint64_t>& contributors,
                         std::uint64_t operation, const Collected& collected);

// IEEE binary16 and bfloat16 as numbers. Encoding is exact; REQUIRES: the value is a normal number of the type, or 0.
double DecodeF16(std::uint16_t bits);
double DecodeBf16(std::uint16_t bits);
std::uint16_t EncodeF16(double value);
std::uint16_t EncodeBf16(double value);

}  // namespace ringway::bench
