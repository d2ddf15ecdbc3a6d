#include "daemon/agreement/frames_out.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "proto/local_abi.h"
#include "proto/mutation.h"
#include "proto/rules.h"

namespace ringway::agreement {

using collective::Executor;

bool FramesOut::EncodeFrame(const FrameSource& source, links::SentFrame& frame, const Offer& offer,
                            Outbound& out) const {
  const std::byte* const copy = source.copy != nullptr ? source.copy->data() : nullptr;
  collective::Executor::Encoded encoded = source.executor->Encode(frame.ready, offer.scratch, copy);
  if (!encoded.fits) return false;
  encoded.header.kind = source.kind;
  encoded.header.epoch = ctx_.view().epoch;
  encoded.header.op = frame.op;
  EncodeSegmentHeader(encoded.header, out.header);
  frame.hash = encoded.header.payload_hash;
  out.payload = encoded.payload;
  out.keep = source.copy != nullptr ? Keep(source.copy) : source.keep;
  return true;
}

bool FramesOut::NextOf(Operation& op, const Offer& offer, Outbound& out, links::SentFrame& sent) {
  const auto bytes = op.executor->NextBytes(offer.rank);
  if (!bytes || *bytes > offer.bytes_max || !queue_.MayBeSent(op, offer.to, *bytes)) return false;
  const auto ready = op.executor->PopReady(offer.rank, offer.bytes_max);
  sent = {.op = op.name, .attempt = op.attempt, .ready = *ready};
  const FrameSource source{.executor = op.executor.get(), .keep = op.buffers, .copy = guard_.CautiousCopy(op, *ready)};
  if (!EncodeFrame(source, sent, offer, out)) {
    guard_.OnModified(op, "output");
    return false;
  }
  sent.eager_cost = queue_.Charge(op, offer.to, *bytes);
  op.wire_bytes += kSegmentHeaderBytes + *bytes;
  return true;
}

bool FramesOut::NextServed(Serving& serving, const Offer& offer, Outbound& out, links::SentFrame& sent) {
  const auto ready = serving.executor->PopReady(offer.rank, offer.bytes_max);
  if (!ready) return false;
  sent = {.op = serving.name, .attempt = serving.attempt, .ready = *ready};
  FrameSource source{.executor = serving.executor.get(), .kind = SegmentKind::kFetched, .keep = serving.keep};
  if (Operation* op = table_.Find(serving.name); op != nullptr && !op->is_retained()) {
    if (op->told) return false;  // everybody holds it, and it is its trainer's again
    source.copy = BufferGuard::SealedCopy(*op, serving.executor->RangeOf(*ready));
    if (source.copy == nullptr) {
      guard_.OnModified(*op, "output");
      return false;
    }
  }
  return EncodeFrame(source, sent, offer, out);
}

bool FramesOut::NextQueued(const Offer& offer, Outbound& out, links::SentFrame& sent) {
  while (const std::optional<ReadyIndex::Choice> next = queue_.Next(offer.rank, offer.bytes_max)) {
    const bool found = NextOf(*table_.Find(next->turn.name), offer, out, sent);
    if (!membership_.modified().empty()) return false;
    if (found) {
      queue_.Sent(*next, offer.rank, offer.bytes_max);
      return true;
    }
    queue_.NotNow(next->turn, offer.rank);
  }
  return false;
}

bool FramesOut::NextOwn(const Offer& offer, Outbound& out, links::SentFrame& sent) {
  const auto next_message = [&] { return messages_.Next(offer.to, offer.bytes_max, offer.turns->stream, out, sent); };
  bool& message_last = offer.turns->message;
  if (!message_last && next_message()) return message_last = true;
  if (NextQueued(offer, out, sent)) {
    message_last = false;
    return true;
  }
  return message_last && membership_.modified().empty() && next_message();
}

bool FramesOut::NextFetched(const Offer& offer, Outbound& out, links::SentFrame& sent) {
  for (Serving& serving : serving_) {
    if (serving.to == offer.to && NextServed(serving, offer, out, sent)) return true;
    if (!membership_.modified().empty()) return false;
  }
  return false;
}

bool FramesOut::Next(const LinkId& lane, std::uint32_t payload_bytes_max, std::span<std::byte> scratch, Outbound& out) {
  const auto rank = ctx_.view().RankOf(lane.other);
  if (!ctx_.views.running() || !rank || !links_.IsUp(lane) || !membership_.modified().empty()) return false;
  LaneTurns& turns = turns_[lane];
  const Offer offer{
      .to = lane.other, .rank = *rank, .bytes_max = payload_bytes_max, .scratch = scratch, .turns = &turns};
  links::SentFrame sent;
  const auto are_whole = [this] { return membership_.modified().empty(); };
  const bool fetches_last = turns.fetched;
  bool is_fetched = !fetches_last && NextFetched(offer, out, sent);
  bool found = is_fetched || (are_whole() && NextOwn(offer, out, sent));
  if (!found && fetches_last && are_whole()) found = is_fetched = NextFetched(offer, out, sent);
  if (!found || !are_whole()) return false;
  turns.fetched = is_fetched;
  ctx_.counts.bytes_sent += kSegmentHeaderBytes + out.payload.size();
  watch_.Moved();
  links_.CountOut(lane, sent);
  return true;
}

void FramesOut::OnLost(PeerId to, const links::SentFrame& frame) {
  if (!attempts_.IsLive(frame.attempt)) return;
  const auto served = std::find_if(serving_.begin(), serving_.end(),
                                   [&](const Serving& serving) { return serving.attempt == frame.attempt; });
  if (served != serving_.end()) {
    served->executor->Requeue(frame.ready);
  } else if (messages_.OnLost(frame)) {
    // sent again
  } else if (Operation* op = table_.Find(frame.op); op != nullptr && op->executor && op->attempt == frame.attempt) {
    op->executor->Requeue(frame.ready);
    queue_.Refund(*op, to, frame.eager_cost);
  } else {
    return;
  }
  RINGWAY_REACHED(kResendSegments);
  ++ctx_.counts.segments_resent;
}

void FramesOut::OnAgain(PeerId from, const control::Again& again) {
  Operation* op = table_.Find({ChannelId(again.channel()), again.seq()});
  const auto rank = ctx_.view().RankOf(from);
  constexpr std::uint32_t kMax = std::numeric_limits<std::uint16_t>::max();
  if (op == nullptr || !op->executor || op->fetching || !rank || again.step() > kMax || again.chunk() > kMax) return;
  RINGWAY_REACHED(kSendAgain);
  queue_.MarkReady(*op, from);  // it asks only for what it runs
  op->executor->SendAgain(*rank, static_cast<std::uint16_t>(again.step()), static_cast<std::uint16_t>(again.chunk()),
                          again.segment());
  ++ctx_.counts.segments_resent;
}

void FramesOut::AddPeersWithWork(std::vector<PeerId>& peers) const {
  if (!ctx_.views.running()) return;
  std::uint64_t seen = 0;
  for (const PeerId peer : peers) {
    if (const auto rank = ctx_.view().RankOf(peer)) seen |= std::uint64_t{1} << rank->value;
  }
  static_assert(abi::kWorldSizeMax <= 64, "ranks are bits here");
  const auto add = [&](Rank rank) {
    const std::uint64_t bit = std::uint64_t{1} << rank.value;
    if ((seen & bit) == 0 && rank.value < ctx_.view().members.size()) peers.push_back(ctx_.view().members[rank.value]);
    seen |= bit;
  };
  queue_.index().ForEachRank(add);
  for (const Serving& serving : serving_) serving.executor->ForEachReady(add);
  messages_.ForEachPeerWithWork([&](PeerId peer) {
    if (const auto rank = ctx_.view().RankOf(peer)) add(*rank);
  });
}

// ---------------------------------------------------------------------------------------------- fetches

void FramesOut::Serve(PeerId from, const OpName& name) {
  Operation* op = table_.Find(name);
  const bool holds = op != nullptr && op->has_outcome() && op->outcome.code == Code::kOk && op->shape.shared &&
                     (op->is_retained() || !op->told);  // a told result region is the trainer's again
  if (!holds) {
    ctx_.AddNote("fetch_refused", {{"op", ToString(name)}, {"from", ctx_.NameOf(from)}}, Severity::kWarning);
    return;
  }
  const auto same = [&](const Serving& serving) { return serving.name == name && serving.to == from; };
  if (std::any_of(serving_.begin(), serving_.end(), same)) return;
  RINGWAY_REACHED(kServeFetch);
  BufferGuard::Seal(*op);
  Descriptor fetched = op->submission.descriptor;
  fetched.schedule = kFetchedAs;
  Serving serving{.name = name, .to = from, .attempt = attempts_.Begin(), .executor = nullptr, .keep = op->buffers};
  const Rank self = *ctx_.view().RankOf(ctx_.self);
  serving.executor = std::make_unique<Executor>(
      collective::Share(collective::FetchSchedule(self, *ctx_.view().RankOf(from), self, op->fetched_parts())),
      collective::ExecutorOptions{.descriptor = fetched,
                                  .shape = {.count = op->shape.count, .input = {}, .output = {0, op->shape.count}},
                                  .layout = op->submission.layout,
                                  .world_size = kNotAlone,
                                  .segment_bytes_max = ctx_.view().plan.segment_bytes_max,
                                  .output = op->buffers->output(),
                                  .stamp = {}});
  serving_.push_back(std::move(serving));
}

void FramesOut::StopServing() {
  turns_.clear();
  for (const Serving& serving : serving_) attempts_.End(serving.attempt);
  serving_.clear();
}

void FramesOut::Forget(const OpName& name) {
  std::erase_if(serving_, [&](const Serving& serving) {
    if (serving.name != name) return false;
    attempts_.End(serving.attempt);
    return true;
  });
}

}  // namespace ringway::agreement
