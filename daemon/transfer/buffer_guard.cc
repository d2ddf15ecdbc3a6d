#include "daemon/transfer/buffer_guard.h"

#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "proto/mutation.h"
#include "proto/rules.h"

namespace ringway::transfer {

Attempt::Copy BufferGuard::CautiousCopy(const Attempt& attempt, const collective::Ready& ready) const {
  if (!watch_.cautious(now_) || !attempt.trainer_writes(ready)) return nullptr;
  const std::span<const std::byte> source = attempt.executor().SourceOf(ready);
  return std::make_shared<const std::vector<std::byte>>(source.begin(), source.end());
}

void BufferGuard::OnRefused(const links::SentFrame& frame) {
  const Attempt* attempt = attempts_.Find(frame.attempt);
  if (attempt == nullptr || !attempt->trainer_writes(frame.ready)) return;
  if (attempt->executor().IsConsumed(frame.ready)) return;
  RINGWAY_REACHED(kCheckRefused);
  watch_.OnFailure(now_);
  if (attempt->executor().HashNow(frame.ready) == frame.hash || RINGWAY_MUTANT(kBlameTheLink)) return;
  OnModified(*attempt, attempt->executor().SendsInput(frame.ready) ? "input" : "output");
}

void BufferGuard::ChooseTarget(const Attempt& attempt, collective::Executor::Claim& claim) {
  if (!attempt.trainer_writes_output() || claim.direct == nullptr) return;
  if (watch_.cautious(now_)) {
    claim.direct = nullptr;
  } else {
    watch_.Forget(PlaceOf(attempt, claim));
  }
}

void BufferGuard::OnFailedPayload(const Attempt& attempt, const collective::Executor::Claim& claim) {
  if (!attempt.trainer_writes_output() || claim.direct == nullptr) return;
  watch_.OnFailedRead(PlaceOf(attempt, claim), attempt.executor().TargetOf(claim), now_);
}

void BufferGuard::CheckTarget(const Attempt& attempt, const collective::Executor::Claim& claim) {
  if (!attempt.trainer_writes_output() || claim.direct != nullptr || RINGWAY_MUTANT(kBlameTheLink)) return;
  if (watch_.HasChanged(PlaceOf(attempt, claim), attempt.executor().TargetOf(claim))) OnModified(attempt, "output");
}

void BufferGuard::OnModified(const Attempt& attempt, const std::string& buffer) {
  if (!std::exchange(modified_, true)) listener_.OnModified(attempt.ToText(), buffer);
}

}  // namespace ringway::transfer
