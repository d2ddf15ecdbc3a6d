#include "daemon/agreement/buffer_guard.h"

#include <optional>
#include <span>
#include <utility>

#include "proto/mutation.h"
#include "proto/rules.h"

namespace ringway::agreement {
namespace {

std::shared_ptr<const std::vector<std::byte>> CopyOf(std::span<const std::byte> bytes) {
  return std::make_shared<const std::vector<std::byte>>(bytes.begin(), bytes.end());
}

}  // namespace

// Of what the trainer can write to; what lies in the daemon's own memory is what it was.
bool BufferGuard::IsTrainersSource(const Use& use, const collective::Ready& ready) {
  return use.executor.SendsInput(ready) ? use.buffers.trainer_writes_input() : use.buffers.trainer_writes_output();
}

BufferGuard::Copy BufferGuard::CautiousCopy(const Operation& op, const collective::Ready& ready) const {
  return CautiousCopy(UseOf(op), ready);
}

BufferGuard::Copy BufferGuard::CautiousCopy(const Use& use, const collective::Ready& ready) const {
  if (!watch_.cautious(ctx_.now) || !IsTrainersSource(use, ready)) return nullptr;
  return CopyOf(use.executor.SourceOf(ready));
}

// An operation that was told is its trainer's no more to keep.
void BufferGuard::OnRefused(const links::SentFrame& frame) {
  if (!attempts_.IsLive(frame.attempt)) return;
  const Operation* op = table_.Find(frame.op);
  if (op == nullptr || op->told || !op->executor || op->attempt != frame.attempt) return;  // those served are copies
  if (IsModified(UseOf(*op), frame)) OnModified(*op, op->executor->SendsInput(frame.ready) ? "input" : "output");
}

bool BufferGuard::IsModified(const Use& use, const links::SentFrame& frame) {
  if (!IsTrainersSource(use, frame.ready) || use.executor.IsConsumed(frame.ready)) return false;
  RINGWAY_REACHED(kCheckRefused);
  watch_.OnFailure(ctx_.now);
  return use.executor.HashNow(frame.ready) != frame.hash && !RINGWAY_MUTANT(kBlameTheLink);
}

void BufferGuard::OnFailedPayload(const Operation& op, std::uint64_t attempt,
                                  const collective::Executor::Claim& claim) {
  if (!op.is_retained()) OnFailedPayload({attempt, *op.executor, *op.buffers}, claim);
}

void BufferGuard::OnFailedPayload(const Use& use, const collective::Executor::Claim& claim) {
  if (claim.direct == nullptr) return;
  watch_.OnFailedRead(PlaceOf(use.attempt, claim), use.executor.TargetOf(claim), ctx_.now);
}

void BufferGuard::ChooseTarget(const Operation& op, collective::Executor::Claim& claim) {
  if (!op.is_retained()) ChooseTarget(UseOf(op), claim);
}

void BufferGuard::ChooseTarget(const Use& use, collective::Executor::Claim& claim) {
  if (claim.direct == nullptr) return;
  if (watch_.cautious(ctx_.now)) {
    claim.direct = nullptr;
  } else {
    watch_.Forget(PlaceOf(use.attempt, claim));
  }
}

void BufferGuard::CheckTarget(const Operation& op, const collective::Executor::Claim& claim) {
  if (!op.is_retained() && HasChanged(UseOf(op), claim)) OnModified(op, "output");
}

bool BufferGuard::HasChanged(const Use& use, const collective::Executor::Claim& claim) {
  if (claim.direct != nullptr || RINGWAY_MUTANT(kBlameTheLink)) return false;
  return watch_.HasChanged(PlaceOf(use.attempt, claim), use.executor.TargetOf(claim));
}

BufferGuard::Copy BufferGuard::SealedCopy(Operation& op, const collective::Range& range) {
  std::optional<std::vector<std::byte>> copy = op.seal.Copy(op.buffers->output(), range);
  if (!copy) return nullptr;
  return std::make_shared<const std::vector<std::byte>>(std::move(*copy));
}

void BufferGuard::Seal(Operation& op) {
  if (op.has_outcome() && op.outcome.code == Code::kOk && op.executor && !op.is_retained())
    op.seal = op.executor->Seal();
}

void BufferGuard::OnModified(const std::string& what, const std::string& buffer) {
  if (!membership_.modified().empty() || ctx_.views.ended()) return;
  RINGWAY_REACHED(kLeaveModified);
  membership_.LeaveForModified("this trainer wrote to the " + buffer + " of " + what +
                               " before it was done; the others go on without this peer: correct the trainer, join "
                               "again and take their state");
  ctx_.AddNote("buffer_modified", {{"epoch", ToString(ctx_.view().epoch)}, {"op", what}, {"buffer", buffer}},
               Severity::kWarning);
}

}  // namespace ringway::agreement
