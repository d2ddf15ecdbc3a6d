#include "daemon/kernels/reduce.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <cmath>

#include "daemon/kernels/kernel_table.h"
#include "proto/check.h"

namespace ringway::kernels {
namespace {

Isa WidestIsa() {
  if (IsAvailable(Isa::kAvx512)) return Isa::kAvx512;
  if (IsAvailable(Isa::kAvx2)) return Isa::kAvx2;
  return Isa::kScalar;
}

}  // namespace

const char* NameOf(Isa isa) {
  switch (isa) {
    case Isa::kScalar:
      return "scalar";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvx512:
      return "avx512";
  }
  return "?";
}

#if defined(__x86_64__)
// F16C; not every compiler's __builtin_cpu_supports knows this name. It needs no more register state than AVX2, which
// is checked beside it. Cached: CPUID traps in a virtual machine and takes tens of microseconds, as long as a segment's
// sum.
static bool HasF16c() {
  static const bool has = [] {
    unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
    return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
  }();
  return has;
}
#endif

// __builtin_cpu_supports also checks that the operating system saves the wide registers. The list is what
// CMakeLists.txt compiles the variant for.
bool IsAvailable(Isa isa) {
  switch (isa) {
    case Isa::kScalar:
      return true;
#if defined(__x86_64__)
    case Isa::kAvx2:
      return __builtin_cpu_supports("avx2") && HasF16c();
    case Isa::kAvx512:
      return IsAvailable(Isa::kAvx2) && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#endif
    default:
      return false;
  }
}

Isa ActiveIsa() {
  static const Isa active = WidestIsa();
  return active;
}

double AverageScale(double weight) {
  int exponent = 0;
  const bool is_power = std::frexp(weight, &exponent) == 0.5;  // in [0.5, 1)
  return std::ldexp(1, is_power ? 1 - exponent : -exponent);
}

const KernelTable& TableOf(Isa isa) {
  RINGWAY_CHECK(IsAvailable(isa));
#if defined(__x86_64__)
  if (isa == Isa::kAvx2) return avx2::Table();
  if (isa == Isa::kAvx512) return avx512::Table();
#endif
  return scalar::Table();
}

void ReduceOn(Isa isa, DType dtype, ReduceOp op, void* dst, const void* a, const void* b, std::size_t count,
              const Scales& scales) {
  RINGWAY_CHECK(static_cast<std::uint8_t>(dtype) < kDTypeCount && static_cast<std::uint8_t>(op) < kReduceOpCount);
  const KernelTable& table = TableOf(isa);
  const ScaledSumFn scaled_sum = table.scaled_sum[static_cast<std::uint8_t>(dtype)];
  if (op == ReduceOp::kAvg && scaled_sum != nullptr && (scales.a != 1 || scales.b != 1)) {
    scaled_sum(dst, a, b, count, scales);
  } else {
    table.reduce[static_cast<std::uint8_t>(dtype)][static_cast<std::uint8_t>(op)](dst, a, b, count);
  }
}

bool AreFiniteOn(Isa isa, DType dtype, const void* values, std::size_t count) {
  RINGWAY_CHECK(static_cast<std::uint8_t>(dtype) < kDTypeCount);
  const AreFiniteFn are_finite = TableOf(isa).are_finite[static_cast<std::uint8_t>(dtype)];
  return are_finite == nullptr || are_finite(values, count);
}

void FinalizeOn(Isa isa, DType dtype, ReduceOp op, void* dst, std::size_t count, double weight) {
  RINGWAY_CHECK(static_cast<std::uint8_t>(dtype) < kDTypeCount && weight > 0);
  const FinalizeFn finalize = TableOf(isa).finalize[static_cast<std::uint8_t>(dtype)];
  const double divisor = weight * AverageScale(weight);
  if (op == ReduceOp::kAvg && finalize != nullptr && divisor != 1) finalize(dst, count, divisor);
}

void AddResidualOn(Isa isa, DType dtype, void* sum, float* loss, const void* x, const float* residual,
                   std::size_t count) {
  RINGWAY_CHECK((kSmallFloats & BitOf(dtype)) != 0);
  TableOf(isa).feedback[static_cast<std::uint8_t>(dtype)].add(sum, loss, x, residual, count);
}

void NoteResidualOn(Isa isa, DType dtype, float* loss, const void* value, const void* decoded, std::size_t count,
                    float factor) {
  RINGWAY_CHECK((kSmallFloats & BitOf(dtype)) != 0);
  TableOf(isa).feedback[static_cast<std::uint8_t>(dtype)].note(loss, value, decoded, count, factor);
}

void KeepInputOn(Isa isa, DType dtype, float* loss, const void* x, const float* residual, std::size_t count) {
  RINGWAY_CHECK((kSmallFloats & BitOf(dtype)) != 0);
  TableOf(isa).feedback[static_cast<std::uint8_t>(dtype)].keep(loss, x, residual, count);
}

void AddResidual(DType dtype, void* sum, float* loss, const void* x, const float* residual, std::size_t count) {
  AddResidualOn(ActiveIsa(), dtype, sum, loss, x, residual, count);
}

void NoteResidual(DType dtype, float* loss, const void* value, const void* decoded, std::size_t count, float factor) {
  NoteResidualOn(ActiveIsa(), dtype, loss, value, decoded, count, factor);
}

void KeepInput(DType dtype, float* loss, const void* x, const float* residual, std::size_t count) {
  KeepInputOn(ActiveIsa(), dtype, loss, x, residual, count);
}

void Reduce(DType dtype, ReduceOp op, void* dst, const void* a, const void* b, std::size_t count,
            const Scales& scales) {
  ReduceOn(ActiveIsa(), dtype, op, dst, a, b, count, scales);
}

bool AreFinite(DType dtype, const void* values, std::size_t count) {
  return AreFiniteOn(ActiveIsa(), dtype, values, count);
}

void Finalize(DType dtype, ReduceOp op, void* dst, std::size_t count, double weight) {
  FinalizeOn(ActiveIsa(), dtype, op, dst, count, weight);
}

}  // namespace ringway::kernels
