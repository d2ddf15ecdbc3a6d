#include "daemon/agreement/op_work.h"

#include "daemon/buffers/op_buffers.h"

namespace ringway::agreement {

OpWork::Done OpWork::Do(Operation& op) {
  if (!ctx_.views.running()) return Done::kNothing;
  if (op.has_outcome()) frames_.Forget(op);  // it needed none of them
  if (op.telling) return Deliver(op);
  if (op.stage != Stage::kRunning || !op.executor) return Done::kNothing;
  if (!op.fetching) DoInput(op);
  Spend(frames_.Feed(op, slice_left_));
  frames_.AskAgain(op);
  return op.is_computed() ? Done::kComputed : Done::kNothing;
}

void OpWork::DoInput(Operation& op) {
  Spend(op.buffers->Stage(slice_left_));
  op.executor->InputReady(op.buffers->input_ready());
  if (slice_left_ > 0) Spend(op.executor->Work(slice_left_));
}

// A failure has no result.
OpWork::Done OpWork::Deliver(Operation& op) {
  if (op.outcome.code == Code::kOk) {
    Spend(op.buffers->Deliver(op.output_bytes(), slice_left_));
    if (op.buffers->final_upto() < op.output_bytes()) return Done::kNothing;
  }
  return Done::kDelivered;
}

void OpWork::Keep(const Operation& op) {
  if (HasLeft(op)) {
    names_.insert(op.name);
  } else {
    names_.erase(op.name);
  }
}

bool OpWork::HasLeft(const Operation& op) const {
  if (!ctx_.views.running()) return false;
  if (op.stage == Stage::kComplete) return op.telling;
  if (op.stage != Stage::kRunning || !op.executor) return false;
  const bool stages = !op.fetching && op.buffers->can_stage();
  return stages || op.executor->has_work() || frames_.Holds(op);
}

OpName OpWork::Next() {
  const auto next = names_.upper_bound(cursor_);
  cursor_ = next == names_.end() ? *names_.begin() : *next;
  return cursor_;
}

}  // namespace ringway::agreement
