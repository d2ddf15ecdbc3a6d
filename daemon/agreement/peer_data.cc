#include <algorithm>
#include <cstring>

#include "daemon/agreement/peer_impl.h"
#include "proto/check.h"
#include "proto/mutation.h"

namespace ringway::agreement {

// ---------------------------------------------------------------------------------------------- in

Result<Inbound> Peer::Impl::OnHeader(const LinkId& lane, const SegmentHeader& header) {
  Result<Inbound> inbound = Judge(lane, header);
  if (inbound.ok() && inbound.value().kind == Inbound::Kind::kDiscard) links_.CountIn(lane);
  return inbound;
}

Result<Inbound> Peer::Impl::Judge(const LinkId& lane, const SegmentHeader& header) {
  links_.Heard(lane.other);
  if (header.kind == SegmentKind::kProbe) return Inbound{};
  ctx_.counts.bytes_received += kSegmentHeaderBytes + header.payload_bytes;
  if (ctx_.views.ended() || ctx_.views.IsOld(header.epoch)) return Inbound{};
  // Before the channels' beginnings are known, too, which come with the view.
  if (header.epoch > ctx_.view().epoch) return RINGWAY_MUTANT(kDropEarlyFrames) ? Inbound{} : Hold(lane, header);
  if (table_.IsTooFarAhead(header.op))
    return Status(Code::kProtocol, "segment of an operation far ahead of its channel");
  const auto rank = ctx_.view().RankOf(lane.other);
  if (!rank) return Status(Code::kProtocol, "segment from a peer that is no member of its view");
  if (table_.IsFinished(header.op)) return Inbound{};
  Operation* op = table_.Find(header.op);
  const bool fetched = header.kind == SegmentKind::kFetched;
  if (op == nullptr || (op->stage == Stage::kQueued && !fetched)) return fetched ? Inbound{} : Hold(lane, header);
  MarkReady(*op, lane.other);
  if (!CheckDescriptor(*op, header.descriptor, lane.other)) {
    AfterProgress();
    return Inbound{};
  }
  if (!op->executor || op->has_outcome() || fetched != op->fetching) return Inbound{};
  Result<collective::Executor::Claim> claim = op->executor->Take(header, *rank);
  if (!claim.ok()) return claim.status();
  if (claim.value().skipped) return Inbound{};
  op_watch_.Moved();
  ChooseTarget(*op, claim.value());
  pending_[lane] = {PendingFrame::Use::kExecutor, header, op->attempt, claim.value(), {}, lane.other};
  Inbound inbound;
  inbound.kind = claim.value().direct != nullptr ? Inbound::Kind::kDirect : Inbound::Kind::kScratch;
  inbound.target = claim.value().direct;
  inbound.attempt = op->attempt;
  if (inbound.target != nullptr) inbound.keep = op->memory;
  return inbound;
}

Result<Inbound> Peer::Impl::Hold(const LinkId& lane, const SegmentHeader& header) {
  // Beyond the window: what was begun within it, and each channel's next small operation (twice its bytes travel).
  const std::uint64_t bound = ctx_.view().plan.eager_bytes_max + kPayloadBytesMax +
                              abi::kChannelCountMax * 2 * ctx_.view().plan.small_bytes_max;
  if (held_.BytesFrom(lane.other) + EarlyFrames::Cost(header) > bound) {
    return Status(Code::kProtocol, "more eager bytes than the plan allows");
  }
  op_watch_.Moved();
  EarlyFrame frame = held_.Reserve(lane.other, header);
  Inbound inbound;
  if (frame.payload == nullptr) {
    held_.Add(std::move(frame));
    return inbound;
  }
  inbound.kind = Inbound::Kind::kDirect;
  inbound.target = frame.payload->data();
  inbound.keep = frame.payload;
  pending_[lane] = {PendingFrame::Use::kHold, header, 0, {}, std::move(frame), lane.other};
  return inbound;
}

// A difference is an agreed outcome: this rank reports it, every rank gets the same typed error.
bool Peer::Impl::CheckDescriptor(Operation& op, const Descriptor& theirs, PeerId from) {
  if (theirs == op.submission.descriptor || RINGWAY_MUTANT(kIgnoreMismatch)) return true;
  if (op.mismatch.empty() && !op.has_outcome()) {
    op.mismatch = ctx_.NameOf(ctx_.self) + " submitted " + ToString(op.submission.descriptor) + "; " +
                  ctx_.NameOf(from) + " submitted " + ToString(theirs) + " as operation " + ToString(op.name);
    membership_.TroubleLater("mismatch: " + op.mismatch);
  }
  return false;
}

Status Peer::Impl::OnPayload(const LinkId& lane, std::span<const std::byte> payload, std::uint64_t hash) {
  Status status = TakePayload(lane, payload, hash);
  if (status.ok()) links_.CountIn(lane);
  return status;
}

Status Peer::Impl::TakePayload(const LinkId& lane, std::span<const std::byte> payload, std::uint64_t hash) {
  const auto found = pending_.find(lane);
  if (found == pending_.end()) return Status::Ok();
  const PendingFrame frame = found->second;
  if (ctx_.views.IsOld(frame.header.epoch) || (frame.use == PendingFrame::Use::kExecutor && !IsLive(frame.attempt))) {
    OnLaneDown(lane);  // unjudged: its sender's trainer may have its memory back
    return Status::Ok();
  }
  if (payload.size() != frame.header.payload_bytes || hash != frame.header.payload_hash) {
    OnFailedPayload(lane, frame);
    OnLaneDown(lane);
    return {Code::kProtocol, "segment payload fails its checksum"};
  }
  pending_.erase(found);
  op_watch_.Moved();
  if (frame.use == PendingFrame::Use::kHold) {
    held_.Add(frame.held);
    // Its operation may have been submitted, or its view installed, while the payload was on the way.
    if (table_.IsFinished(frame.header.op)) held_.Drop(frame.header.op, frame.header.epoch);
    if (Operation* op = table_.Find(frame.header.op)) StartWork(*op);
  } else {
    Operation* op = table_.Find(frame.header.op);
    RINGWAY_CHECK(op != nullptr && op->executor && op->attempt == frame.attempt);
    CheckTarget(*op, frame.claim);
    op->executor->Accept(frame.claim, frame.header, payload);
    AskAgain(*op);
    if (op->executor->complete()) OnComputed(*op);
  }
  AfterProgress();
  return Status::Ok();
}

// A held frame meets its operation.
bool Peer::Impl::Accept(Operation& op, const SegmentHeader& header, PeerId from, std::span<const std::byte> payload) {
  const auto rank = ctx_.view().RankOf(from);
  if (!rank || header.kind != SegmentKind::kData || op.fetching) return true;
  MarkReady(op, from);
  if (!CheckDescriptor(op, header.descriptor, from)) return false;
  Result<collective::Executor::Claim> claim = op.executor->Take(header, *rank);
  if (!claim.ok()) {
    membership_.TroubleLater("held segment: " + claim.status().text());
    return false;
  }
  if (claim.value().skipped) return true;
  if (claim.value().direct != nullptr) std::memcpy(claim.value().direct, payload.data(), payload.size());
  op.executor->Accept(claim.value(), header, payload);
  return true;
}

void Peer::Impl::OnLaneDown(const LinkId& lane) {
  const auto found = pending_.find(lane);
  if (found == pending_.end()) return;
  const PendingFrame& frame = found->second;
  if (frame.use == PendingFrame::Use::kHold) {
    held_.Unreserve(frame.held);
  } else if (IsLive(frame.attempt)) {
    if (Operation* op = table_.Find(frame.header.op); op != nullptr && op->executor) op->executor->Release(frame.claim);
  }
  pending_.erase(found);
}

// The pair's lanes are gone: what was half read from them will not come.
void Peer::Impl::DropFramesOf(PeerId other) {
  std::vector<LinkId> lanes;
  for (const auto& [lane, frame] : pending_) {
    if (lane.other == other) lanes.push_back(lane);
  }
  for (const LinkId& lane : lanes) OnLaneDown(lane);
}

// ---------------------------------------------------------------------------------------------- out

bool Peer::Impl::MayBeEager(const Operation& op, PeerId to, std::uint32_t bytes) const {
  if (op.ready.contains(to)) return true;
  // Nobody says READY for a small operation, so the window must not stop the one that the others wait for.
  if (!RINGWAY_MUTANT(kWindowStopsAll) && IsSmall(op) && table_.CompleteUpto(op.name.channel) + 1 == op.name.seq)
    return true;
  const auto sent = unready_.find(to);
  const std::uint64_t already = sent == unready_.end() ? 0 : sent->second;
  return already + bytes + EarlyFrames::kOverheadBytes <= ctx_.view().plan.eager_bytes_max;
}

bool Peer::Impl::EncodeFrame(const FrameSource& source, links::SentFrame& frame, const Offer& offer,
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

bool Peer::Impl::NextOf(Operation& op, const Offer& offer, Outbound& out, links::SentFrame& sent) {
  const auto bytes = op.executor->NextBytes(offer.rank);
  if (!bytes || *bytes > offer.bytes_max || !MayBeEager(op, offer.to, *bytes)) return false;
  const auto ready = op.executor->PopReady(offer.rank, offer.bytes_max);
  sent = {.op = op.name, .attempt = op.attempt, .ready = *ready};
  const FrameSource source{.executor = op.executor.get(), .keep = op.memory, .copy = CautiousCopy(op, *ready)};
  if (!EncodeFrame(source, sent, offer, out)) {
    OnModified(op, "output");
    return false;
  }
  if (!op.ready.contains(offer.to)) {
    sent.eager_cost = *bytes + EarlyFrames::kOverheadBytes;
    op.unready_bytes[offer.to] += sent.eager_cost;
    unready_[offer.to] += sent.eager_cost;
  }
  op.wire_bytes += kSegmentHeaderBytes + *bytes;
  return true;
}

bool Peer::Impl::NextServed(Serving& serving, const Offer& offer, Outbound& out, links::SentFrame& sent) {
  const auto ready = serving.executor->PopReady(offer.rank, offer.bytes_max);
  if (!ready) return false;
  sent = {.op = serving.name, .attempt = serving.attempt, .ready = *ready};
  FrameSource source{.executor = serving.executor.get(), .kind = SegmentKind::kFetched, .keep = serving.keep};
  if (Operation* op = table_.Find(serving.name); op != nullptr && !op->own_output) {
    if (op->told) return false;  // everybody holds it, and it is its trainer's again
    source.copy = SealedCopy(*op, serving.executor->RangeOf(*ready));
    if (source.copy == nullptr) {
      OnModified(*op, "output");
      return false;
    }
  }
  return EncodeFrame(source, sent, offer, out);
}

bool Peer::Impl::NextSegment(const LinkId& lane, std::uint32_t payload_bytes_max, std::span<std::byte> scratch,
                             Outbound& out) {
  if (NextOfOperations(lane, payload_bytes_max, scratch, out)) return true;
  const bool is_probed = paths_.turn().contains(lane.other) && MayProbe();
  return is_probed && paths_.NextProbe(lane, payload_bytes_max, out);
}

bool Peer::Impl::NextOfOperations(const LinkId& lane, std::uint32_t payload_bytes_max, std::span<std::byte> scratch,
                                  Outbound& out) {
  const auto rank = ctx_.view().RankOf(lane.other);
  if (!ctx_.views.running() || !rank || !links_.IsUp(lane) || !membership_.modified().empty()) return false;
  const Offer offer{.to = lane.other, .rank = *rank, .bytes_max = payload_bytes_max, .scratch = scratch};
  links::SentFrame sent;
  // Round robin, so that one large operation does not hold up the others.
  bool found = false;
  while (!found) {
    const std::optional<OpName> next = ready_.Next(*rank, cursor_, payload_bytes_max);
    if (!next) break;
    found = NextOf(*table_.Find(*next), offer, out, sent);
    if (!membership_.modified().empty()) return false;
    if (found) {
      cursor_ = *next;
    } else {
      ready_.NotNow(*next, *rank);
    }
  }
  for (auto serving = serving_.begin(); serving != serving_.end() && !found; ++serving) {
    found = serving->to == lane.other && NextServed(*serving, offer, out, sent);
  }
  if (!found) return false;
  ctx_.counts.bytes_sent += kSegmentHeaderBytes + out.payload.size();
  op_watch_.Moved();
  links_.CountOut(lane, sent);
  return true;
}

void Peer::Impl::OnFrameLost(PeerId to, const links::SentFrame& frame) {
  if (!attempts_.IsLive(frame.attempt)) return;
  const auto served = std::find_if(serving_.begin(), serving_.end(),
                                   [&](const Serving& serving) { return serving.attempt == frame.attempt; });
  if (served != serving_.end()) {
    served->executor->Requeue(frame.ready);
  } else if (Operation* op = table_.Find(frame.op); op != nullptr && op->executor && op->attempt == frame.attempt) {
    op->executor->Requeue(frame.ready);
    if (const auto unready = op->unready_bytes.find(to); unready != op->unready_bytes.end()) {
      unready->second -= frame.eager_cost;
      unready_[to] -= frame.eager_cost;
      if (const auto rank = ctx_.view().RankOf(to)) ready_.Unblock(*rank);
    }
  } else {
    return;
  }
  ++ctx_.counts.segments_resent;
}

std::vector<PeerId> Peer::Impl::PeersWithWork() const {
  std::vector<PeerId> out;
  if (!paths_.turn().empty() && MayProbe()) out.assign(paths_.turn().begin(), paths_.turn().end());
  if (!ctx_.views.running()) return out;
  std::uint64_t seen = 0;
  for (const PeerId probed : out) {
    if (const auto rank = ctx_.view().RankOf(probed)) seen |= std::uint64_t{1} << rank->value;
  }
  static_assert(abi::kWorldSizeMax <= 64, "ranks are bits here");
  const auto add = [&](Rank rank) {
    const std::uint64_t bit = std::uint64_t{1} << rank.value;
    if ((seen & bit) == 0 && rank.value < ctx_.view().members.size()) out.push_back(ctx_.view().members[rank.value]);
    seen |= bit;
  };
  ready_.ForEachRank(add);
  for (const Serving& serving : serving_) serving.executor->ForEachReady(add);
  return out;
}

bool Peer::Impl::NeedsScratch() const { return table_.any_codec(); }

}  // namespace ringway::agreement
