#include "daemon/agreement/op_work.h"

#include <cstddef>
#include <cstring>

namespace ringway::agreement {

OpWork::Done OpWork::Do(Operation& op) {
  if (!ctx_.views.running()) return Done::kNothing;
  if (op.has_outcome()) frames_.Forget(op);  // it needed none of them
  if (op.telling) return CopyResult(op);
  if (op.stage != Stage::kRunning || !op.executor) return Done::kNothing;
  if (!op.fetching) DoInput(op);
  Spend(frames_.Feed(op, slice_left_));
  frames_.AskAgain(op);
  return op.is_computed() ? Done::kComputed : Done::kNothing;
}

void OpWork::DoInput(Operation& op) {
  if (op.own_input) {
    const std::byte* input = op.submission.input;
    const std::uint64_t begin = op.own_input->size();
    const std::uint64_t bytes = std::min(slice_left_, op.submission.input_bytes_ready - begin);
    op.own_input->insert(op.own_input->end(), input + begin, input + begin + bytes);
    Spend(bytes);
  }
  op.executor->InputReady(op.input_bytes_ready());
  if (slice_left_ > 0) Spend(op.executor->Work(slice_left_));
}

// The trainer is told when its copy is whole. A failure has none.
OpWork::Done OpWork::CopyResult(Operation& op) {
  if (op.outcome.code == Code::kOk && op.own_output) {
    const std::uint64_t bytes = std::min(slice_left_, op.output_bytes() - op.told_bytes);
    if (bytes > 0) std::memcpy(op.submission.result + op.told_bytes, op.own_output.get() + op.told_bytes, bytes);
    op.told_bytes += bytes;
    Spend(bytes);
    if (op.told_bytes < op.output_bytes()) return Done::kNothing;
  }
  return Done::kCopied;
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
  const bool copies_input = op.own_input && !op.fetching && op.own_input->size() < op.submission.input_bytes_ready;
  return copies_input || op.executor->has_work() || frames_.Holds(op);
}

OpName OpWork::Next() {
  const auto next = names_.upper_bound(cursor_);
  cursor_ = next == names_.end() ? *names_.begin() : *next;
  return cursor_;
}

}  // namespace ringway::agreement
