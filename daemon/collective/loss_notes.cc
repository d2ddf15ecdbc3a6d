#include "daemon/collective/loss_notes.h"

#include <vector>

#include "daemon/kernels/reduce.h"

namespace ringway::collective {

void LossNotes::OnSent(const Range& range, const std::byte* value, const std::byte* decoded) {
  kernels::Residual(descriptor_.dtype, At(range), value, decoded, range.count, 1);
}

void LossNotes::OnFinished(const Range& range, std::uint32_t segment, const std::byte* value,
                           const std::byte* adopted) {
  const float factor = descriptor_.op == ReduceOp::kAvg ? static_cast<float>(world_.size) : 1;
  if (!world_.everyone_sums) {
    kernels::Residual(descriptor_.dtype, At(range), value, adopted, range.count, factor);
  } else if (segment % world_.size == world_.self.value) {
    std::vector<std::byte> lost(range.count * SizeOf(descriptor_.dtype));
    kernels::Residual(descriptor_.dtype, lost.data(), value, adopted, range.count, factor);
    kernels::Reduce(descriptor_.dtype, ReduceOp::kSum, At(range), At(range), lost.data(), range.count);
  }
}

}  // namespace ringway::collective
