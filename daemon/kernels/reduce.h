// Element-wise reductions.
//
// Shapes: `dst`, `a`, `b` hold `count` elements of `dtype`; `dst` may equal `a` or `b`, no other overlap. No alignment
// is needed. Never allocates, no state, any thread.
//
// Arithmetic: integers wrap. f16 and bf16 are widened to f32, combined and rounded to nearest even each time. min and
// max propagate NaN, and order -0 below +0. Every NaN result of any operation is the canonical one (0x7e00, 0x7fc0,
// 0x7fc00000, 0x7ff8000000000000), so the bytes do not depend on operand order or on the instruction set.
//
// Averages of floats: contributions are multiplied by AverageScale(K), a power of two, as they are added, so that no
// partial sum overflows where the average does not; Finalize divides by what is left of K. The scaling is exact but for
// results that are subnormal, so elsewhere the bytes are those of the sum, divided by K. With weights K is their sum,
// and each contribution is multiplied by its own weight, too.
//
// The widest instruction set of this processor is chosen once; all give the same bytes as the scalar definition. That
// needs the default floating-point environment: nearest even, and subnormals neither flushed nor read as zero.
#pragma once

#include <ringway/types.h>

#include <cstddef>
#include <cstdint>

namespace ringway::kernels {

// The factors of kAvg's operands: AverageScale, times its weight, for a contribution, 1 for a partial sum.
struct Scales {
  double a = 1;
  double b = 1;
};

// The largest power of two that is at most 1 / weight, the sum of the contributors' weights: their number, where each
// is 1. REQUIRES: weight > 0.
double AverageScale(double weight);

// dst[i] = a[i] (op) b[i]. kAvg on floating types computes a[i] * scales.a + b[i] * scales.b, rounded once in f16 and
// bf16; `scales` is not used otherwise.
void Reduce(DType dtype, ReduceOp op, void* dst, const void* a, const void* b, std::size_t count,
            const Scales& scales = {});

// Returns whether no element is an infinity or a NaN.
bool AreFinite(DType dtype, const void* values, std::size_t count);

// dst[i] = dst[i] / (weight * AverageScale(weight)), for kAvg on floating types; nothing for every other op. f16/bf16
// divide in f32 and round. REQUIRES: weight > 0.
void Finalize(DType dtype, ReduceOp op, void* dst, std::size_t count, double weight);

// Error feedback computes in f32 whatever the dtype; what is not finite counts as 0. REQUIRES: dtype is f16, bf16 or
// f32.
//   AddResidual    sum[i] = x[i] + residual[i], rounded to the dtype; loss[i] = what the rounding took. Where x[i]
//                  is finite, and the two are more than the dtype holds, sum[i] is its largest number, loss[i] the rest
//   NoteResidual   loss[i] += (value[i] - decoded[i]) * factor
//   KeepInput      loss[i] = x[i] + residual[i], or residual[i] where that is not finite
void AddResidual(DType dtype, void* sum, float* loss, const void* x, const float* residual, std::size_t count);
void NoteResidual(DType dtype, float* loss, const void* value, const void* decoded, std::size_t count, float factor);
void KeepInput(DType dtype, float* loss, const void* x, const float* residual, std::size_t count);

// Instruction sets that tests and benchmarks can force.
enum class Isa : std::uint8_t { kScalar = 0, kAvx2, kAvx512 };
const char* NameOf(Isa isa);
bool IsAvailable(Isa isa);
Isa ActiveIsa();
// Tests use it: the same as Reduce on one instruction set. REQUIRES: IsAvailable(isa).
void ReduceOn(Isa isa, DType dtype, ReduceOp op, void* dst, const void* a, const void* b, std::size_t count,
              const Scales& scales = {});
bool AreFiniteOn(Isa isa, DType dtype, const void* values, std::size_t count);
void FinalizeOn(Isa isa, DType dtype, ReduceOp op, void* dst, std::size_t count, double weight);
void AddResidualOn(Isa isa, DType dtype, void* sum, float* loss, const void* x, const float* residual,
                   std::size_t count);
void NoteResidualOn(Isa isa, DType dtype, float* loss, const void* value, const void* decoded, std::size_t count,
                    float factor);
void KeepInputOn(Isa isa, DType dtype, float* loss, const void* x, const float* residual, std::size_t count);

}  // namespace ringway::kernels
