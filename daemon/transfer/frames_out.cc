#include "daemon/transfer/frames_out.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "proto/rules.h"

namespace ringway::transfer {

bool FramesOut::Send(Attempt& attempt, const collective::Ready& ready, const Offer& offer, const Outgoing& to) {
  const Attempt::Encoding encoding{
      .copy = guard_.CautiousCopy(attempt, ready), .scratch = offer.scratch, .is_hashed = !offer.in_process};
  if (attempt.Encode(ready, encoding, to.out, to.sent)) return true;
  guard_.OnModified(attempt, "output");
  return false;
}

// Those that the window does not let go are not asked again until it may.
bool FramesOut::NextOperation(const Offer& offer, const Outgoing& to) {
  while (const std::optional<ReadyIndex::Choice> choice = queue_.Next(offer.rank, offer.bytes_max)) {
    Attempt& attempt = *choice->turn.attempt;
    const std::uint32_t bytes = *attempt.executor().NextBytes(offer.rank);
    if (!queue_.MayBeSent(attempt, offer.lane.other, bytes)) {
      queue_.NotNow(choice->turn, offer.rank);
      continue;
    }
    const auto ready = attempt.executor().PopReady(offer.rank, offer.bytes_max);
    if (!Send(attempt, *ready, offer, to)) return false;
    to.sent.eager_cost = queue_.Charge(attempt, offer.lane.other, bytes);
    queue_.Sent(*choice, offer.rank, offer.bytes_max);
    return true;
  }
  return false;
}

bool FramesOut::NextMessage(const Offer& offer, StreamName& last, const Outgoing& to) {
  const auto popped = messages_.Next(offer.lane.other, offer.bytes_max, last);
  return popped && Send(*popped->attempt, popped->ready, offer, to);
}

bool FramesOut::NextOwn(const Offer& offer, LaneTurns& turns, const Outgoing& to) {
  const bool message_last = turns.message;
  if (!message_last && NextMessage(offer, turns.stream, to)) return turns.message = true;
  if (guard_.modified()) return false;
  if (NextOperation(offer, to)) {
    turns.message = false;
    return true;
  }
  return message_last && !guard_.modified() && NextMessage(offer, turns.stream, to);
}

bool FramesOut::NextServed(Serving& serving, const Offer& offer, const Outgoing& to) {
  const auto ready = serving.attempt.executor().PopReady(offer.rank, offer.bytes_max);
  if (!ready) return false;
  Attempt::Copy copy;
  if (serving.source.buffers->trainer_writes_output()) {
    if (serving.source.returned) return false;  // all hold it, and it is its trainer's again
    copy = serving.source.SealedCopy(serving.attempt.executor().RangeOf(*ready));
    if (copy == nullptr) {
      guard_.OnModified(serving.source, "output");
      return false;
    }
  }
  return serving.attempt.Encode(*ready, {.copy = std::move(copy), .scratch = offer.scratch}, to.out, to.sent);
}

bool FramesOut::NextFetched(const Offer& offer, const Outgoing& to) {
  for (Serving& serving : serving_) {
    if (serving.to == offer.lane.other && NextServed(serving, offer, to)) return true;
    if (guard_.modified()) return false;
  }
  return false;
}

bool FramesOut::Next(const Offer& offer, links::Outbound& out, links::SentFrame& sent) {
  if (guard_.modified()) return false;
  LaneTurns& turns = turns_[offer.lane];
  const Outgoing to{out, sent};
  const bool fetched_last = turns.fetched;
  bool is_fetched = !fetched_last && NextFetched(offer, to);
  bool found = is_fetched || (!guard_.modified() && NextOwn(offer, turns, to));
  if (!found && fetched_last && !guard_.modified()) found = is_fetched = NextFetched(offer, to);
  if (!found) return false;
  turns.fetched = is_fetched;
  counts_.bytes_sent += kSegmentHeaderBytes + out.payload.size();
  return true;
}

void FramesOut::OnLost(PeerId to, const links::SentFrame& frame) {
  Attempt* attempt = attempts_.Find(frame.attempt);
  if (attempt == nullptr) return;
  attempt->executor().Requeue(frame.ready);
  queue_.Refund(*attempt, to, frame.eager_cost);
  RINGWAY_REACHED(kResendSegments);
  ++counts_.segments_resent;
}

void FramesOut::Serve(PeerId to, Attempt& source, Attempt::Start start) {
  const auto same = [&](const Serving& serving) { return &serving.source == &source && serving.to == to; };
  if (std::any_of(serving_.begin(), serving_.end(), same)) return;
  RINGWAY_REACHED(kServeFetch);
  Serving& serving = serving_.emplace_back(to, source);
  serving.attempt.name = {.kind = SegmentKind::kFetched, .op = source.name.op};
  serving.attempt.buffers = source.buffers;
  serving.attempt.Begin(attempts_, nullptr, std::move(start));
}

void FramesOut::StopServing() {
  turns_.clear();
  serving_.clear();
}

void FramesOut::Forget(const OpName& name) {
  std::erase_if(serving_, [&](const Serving& serving) { return serving.attempt.name.op == name; });
}

}  // namespace ringway::transfer
