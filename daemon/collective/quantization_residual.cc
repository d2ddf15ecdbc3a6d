#include "daemon/collective/quantization_residual.h"

#include "daemon/kernels/reduce.h"

namespace ringway::collective {

void QuantizationResidual::OnSent(const Range& range, const std::byte* value, const std::byte* decoded, double scale) {
  kernels::NoteResidual(descriptor_.dtype, At(range), value, decoded, range.count, static_cast<float>(1 / scale));
}

void QuantizationResidual::OnFinished(const Range& range, std::uint32_t segment, const std::byte* value,
                                      const std::byte* adopted) {
  if (world_.everyone_sums && segment % world_.size != world_.self.value) return;
  const float factor = descriptor_.op == ReduceOp::kAvg ? static_cast<float>(world_.average_factor) : 1;
  kernels::NoteResidual(descriptor_.dtype, At(range), value, adopted, range.count, factor);
}

}  // namespace ringway::collective
