// Trainers that write to memory of an operation in flight: how it is noticed (buffer_watch.h), and what follows.
//
// The peer leaves at once, as one whose trainer died: the others abort the view and go on without it. Its trainer's
// operations and its session end with kBufferModified, whatever else the leaving comes to.
#include "daemon/agreement/peer_impl.h"

namespace ringway::agreement {
namespace {

std::shared_ptr<const std::vector<std::byte>> CopyOf(std::span<const std::byte> bytes) {
  return std::make_shared<const std::vector<std::byte>>(bytes.begin(), bytes.end());
}

}  // namespace

// Of what the trainer can write to; what lies in the daemon's own memory is what it was.
bool Peer::Impl::IsTrainersSource(const Operation& op, const collective::Executor::Ready& ready) {
  return op.executor->SendsInput(ready) ? !op.own_input : !op.own_output;
}

std::shared_ptr<const Peer::Impl::Bytes> Peer::Impl::CautiousCopy(const Operation& op,
                                                                  const collective::Executor::Ready& ready) const {
  if (!watch_.cautious(ctx_.now) || !IsTrainersSource(op, ready)) return nullptr;
  return CopyOf(op.executor->SourceOf(ready));
}

// The other end says that the segment failed its checksum. An operation that was told is its trainer's no more to keep.
void Peer::Impl::OnFrameRefused(const links::SentFrame& frame) {
  if (!attempts_.IsLive(frame.attempt)) return;
  const Operation* op = table_.Find(frame.op);
  if (op == nullptr || op->told || !op->executor || op->attempt != frame.attempt) return;  // those served are copies
  if (!IsTrainersSource(*op, frame.ready) || op->executor->IsConsumed(frame.ready)) return;
  watch_.OnFailure(ctx_.now);
  if (op->executor->HashNow(frame.ready) == frame.hash || RINGWAY_MUTANT(kBlameTheLink)) return;
  OnModified(*op, op->executor->SendsInput(frame.ready) ? "input" : "output");
}

void Peer::Impl::OnFailedPayload(const LinkId& lane, const PendingFrame& frame) {
  links_.Refuse(lane);
  if (frame.use != PendingFrame::Use::kExecutor || frame.claim.direct == nullptr) return;
  const Operation* op = table_.Find(frame.header.op);
  if (op == nullptr || op->own_output) return;
  watch_.OnFailedRead(PlaceOf(frame.attempt, frame.claim), op->executor->TargetOf(frame.claim), ctx_.now);
}

// Straight into the output, unless its trainer may be writing there.
void Peer::Impl::ChooseTarget(const Operation& op, collective::Executor::Claim& claim) {
  if (claim.direct == nullptr || op.own_output) return;
  if (watch_.cautious(ctx_.now)) {
    claim.direct = nullptr;
  } else {
    watch_.Forget(PlaceOf(op.attempt, claim));
  }
}

// REQUIRES: its payload has been verified and is not accepted yet.
void Peer::Impl::CheckTarget(const Operation& op, const collective::Executor::Claim& claim) {
  if (claim.direct != nullptr || op.own_output || RINGWAY_MUTANT(kBlameTheLink)) return;
  if (watch_.HasChanged(PlaceOf(op.attempt, claim), op.executor->TargetOf(claim))) OnModified(op, "output");
}

// Of a result in its trainer's memory; null: it is not what the others have.
std::shared_ptr<const Peer::Impl::Bytes> Peer::Impl::SealedCopy(Operation& op, const collective::Range& range) {
  std::optional<std::vector<std::byte>> copy = op.seal.Copy(op.output(), range);
  if (!copy) return nullptr;
  return std::make_shared<const std::vector<std::byte>>(std::move(*copy));
}

// While its executor knows the hashes.
void Peer::Impl::Seal(Operation& op) {
  if (op.has_outcome() && op.outcome.code == Code::kOk && op.executor && !op.own_output) op.seal = op.executor->Seal();
}

void Peer::Impl::OnModified(const Operation& op, const std::string& buffer) {
  if (!membership_.modified().empty() || ctx_.views.ended()) return;
  membership_.LeaveForModified("this trainer wrote to the " + buffer + " of operation " + ToString(op.name) +
                               " before it was done; the others go on without this peer: correct the trainer, join "
                               "again and take their state");
  ctx_.AddNote("buffer_modified",
               "epoch=" + ToString(ctx_.view().epoch) + " op=" + ToString(op.name) + " buffer=" + buffer,
               Severity::kWarning);
}

}  // namespace ringway::agreement
