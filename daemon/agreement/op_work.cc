#include "daemon/agreement/op_work.h"

#include "daemon/buffers/op_buffers.h"

namespace ringway::agreement {

OpWork::Done OpWork::Do(Operation& op) {
  if (!ctx_.views.running()) return Done::kNothing;
  if (op.has_outcome()) frames_.Forget(op);  // it needed none of them
  if (op.stage == Stage::kDelivering) return Deliver(op);
  if (!op.is_running()) return Done::kNothing;
  if (!op.fetching) DoInput(op);
  Spend(frames_.Feed(op, slice_left_));
  frames_.RequestResends(op);
  return op.is_computed() ? Done::kComputed : Done::kNothing;
}

void OpWork::DoInput(Operation& op) {
  Spend(op.attempt.buffers->Stage(slice_left_));
  op.attempt.executor().InputReady(op.attempt.buffers->input_ready());
  if (slice_left_ > 0) Spend(op.attempt.Work(slice_left_));
}

// A failure has no result.
OpWork::Done OpWork::Deliver(Operation& op) {
  if (op.keeps_input(ctx_.self) && !op.feedback->is_kept()) {
    Spend(op.feedback->Keep(slice_left_));
    if (!op.feedback->is_kept()) return Done::kNothing;
  }
  if (op.outcome.code == Code::kOk) {
    Spend(op.attempt.buffers->Deliver(op.output_bytes(), slice_left_));
    if (op.attempt.buffers->final_upto() < op.output_bytes()) return Done::kNothing;
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
  if (op.stage == Stage::kDelivering)
    return !op.keeps_input(ctx_.self) || op.feedback->is_kept() || op.feedback->can_keep();
  if (!op.is_running()) return false;
  const bool stages = !op.fetching && op.attempt.buffers->can_stage();
  return stages || op.attempt.has_work() || frames_.Holds(op);
}

OpName OpWork::Next() {
  const auto next = names_.upper_bound(cursor_);
  cursor_ = next == names_.end() ? *names_.begin() : *next;
  return cursor_;
}

}  // namespace ringway::agreement
