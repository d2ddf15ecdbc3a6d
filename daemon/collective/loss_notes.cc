#include "daemon/collective/loss_notes.h"

#include "daemon/kernels/reduce.h"

namespace ringway::collective {

void LossNotes::OnSent(const Range& range, const std::byte* value, const std::byte* decoded) {
  kernels::NoteResidual(descriptor_.dtype, At(range), value, decoded, range.count, 1);
}

void LossNotes::OnFinished(const Range& range, std::uint32_t segment, const std::byte* value,
                           const std::byte* adopted) {
  if (world_.everyone_sums && segment % world_.size != world_.self.value) return;
  const float factor = descriptor_.op == ReduceOp::kAvg ? static_cast<float>(world_.size) : 1;
  kernels::NoteResidual(descriptor_.dtype, At(range), value, adopted, range.count, factor);
}

}  // namespace ringway::collective
