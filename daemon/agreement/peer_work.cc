// Copies and sums that no frame brings along, in slices:
//
//   own input     into the copy that others get (one_shot), and into the sums that wait for it
//   early frames  what came before their operation was submitted here
//   result        the retained copy, into the trainer's memory; then it is told
//
// Whatever makes such work possible calls StartWork, which does what the slice has left and keeps the rest in work_;
// the slice begins anew with each Work. So between two calls of Work no more than one slice is done, however many
// events there were.
#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "daemon/agreement/peer_impl.h"
#include "proto/check.h"
#include "proto/mutation.h"

namespace ringway::agreement {

using collective::Executor;

Peer::Impl::~Impl() {
  if (ctx_.options.memory == nullptr) return;
  for (const auto& [name, op] : table_.ops()) ctx_.options.memory->Give(MemoryUse::kResults, op.retained_bytes);
}

void Peer::Impl::Work() {
  slice_left_ = ctx_.options.slice_bytes;
  op_watch_.Moved();
  if (!ctx_.views.running()) return work_.clear();  // the next view starts what is open
  for (std::size_t i = work_.size(); i > 0 && slice_left_ > 0 && ctx_.views.running() && !work_.empty(); --i) {
    auto next = work_.upper_bound(work_cursor_);
    if (next == work_.end()) next = work_.begin();
    work_cursor_ = *next;
    if (Operation* op = table_.Find(work_cursor_)) {
      StartWork(*op);
    } else {
      work_.erase(next);
    }
  }
  AfterProgress();
}

void Peer::Impl::StartWork(Operation& op) {
  WorkOn(op);
  if (HasWorkLeft(op)) {
    work_.insert(op.name);
  } else {
    work_.erase(op.name);
  }
}

bool Peer::Impl::HasWorkLeft(const Operation& op) const {
  if (!ctx_.views.running()) return false;
  if (op.stage == Stage::kComplete) return op.telling;
  if (op.stage != Stage::kRunning || !op.executor) return false;
  const bool copies_input = op.own_input && !op.fetching && op.own_input->size() < op.submission.input_bytes_ready;
  return copies_input || op.executor->has_work() || frames_in_.Holds(op);
}

void Peer::Impl::WorkOn(Operation& op) {
  if (!ctx_.views.running()) return;
  if (op.has_outcome()) frames_in_.Forget(op);  // it needed none of them
  if (op.telling) return CopyResult(op);
  if (op.stage != Stage::kRunning || !op.executor) return;
  if (!op.fetching) WorkOnInput(op);
  Spend(frames_in_.Feed(op, slice_left_));
  frames_in_.AskAgain(op);
  if (op.executor->complete()) OnComputed(op);
}

void Peer::Impl::WorkOnInput(Operation& op) {
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
void Peer::Impl::CopyResult(Operation& op) {
  if (op.outcome.code == Code::kOk && op.own_output) {
    const std::uint64_t bytes = std::min(slice_left_, op.bytes() - op.told_bytes);
    if (bytes > 0) std::memcpy(op.submission.result + op.told_bytes, op.own_output.get() + op.told_bytes, bytes);
    op.told_bytes += bytes;
    Spend(bytes);
    if (op.told_bytes < op.bytes()) return;
  }
  Tell(op);
}

// ---------------------------------------------------------------------------------------------- room

// Where the daemon has no room for the copies, the operation waits until all hold its result.
void Peer::Impl::Retain(Operation& op, bool with_input) {
  if (RINGWAY_MUTANT(kSendTrainersInput)) with_input = false;
  if (op.own_output ? op.own_input || !with_input : !IsToBeRetained(op)) return;
  const std::uint64_t bytes = (op.own_output ? 0 : op.bytes()) + (with_input ? op.bytes() : 0);
  if (ctx_.options.memory != nullptr && !ctx_.options.memory->TryTake(MemoryUse::kResults, bytes)) return Unretain(op);
  op.retained_bytes += bytes;
  if (!op.own_output) {
    op.own_output = std::make_shared_for_overwrite<std::byte[]>(op.bytes());
    table_.Retain(op.bytes());
  }
  if (!with_input) return;
  op.own_input = std::make_shared<std::vector<std::byte>>();
  op.own_input->reserve(op.bytes());
}

// REQUIRES: it has no outcome.
void Peer::Impl::Unretain(Operation& op) {
  RINGWAY_CHECK(!op.has_outcome());
  if (op.own_output) table_.Unretain(op.bytes());
  if (ctx_.options.memory != nullptr)
    ctx_.options.memory->Give(MemoryUse::kResults, std::exchange(op.retained_bytes, 0));
  op.own_output.reset();
  op.own_input.reset();
}

}  // namespace ringway::agreement
