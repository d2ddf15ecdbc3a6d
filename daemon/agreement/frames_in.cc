#include "daemon/agreement/frames_in.h"

#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "daemon/agreement/messages.h"
#include "proto/check.h"
#include "proto/local_abi.h"
#include "proto/mutation.h"
#include "proto/rules.h"

namespace ringway::agreement {

using collective::Executor;

FramesIn::FramesIn(Context& ctx, const Attempts& attempts, Links& links, OpTable& table, SendQueue& queue,
                   Membership& membership, OperationWatch& watch, BufferGuard& guard, MessageFrames& messages)
    : ctx_(ctx),
      attempts_(attempts),
      links_(links),
      table_(table),
      queue_(queue),
      membership_(membership),
      watch_(watch),
      guard_(guard),
      messages_(messages),
      held_(ctx.options.memory.get()) {}

FramesIn::~FramesIn() {
  for (const auto& [lane, frame] : in_flight_) {
    if (const auto* held = std::get_if<EarlyFrame>(&frame.place)) held_.Unreserve(*held);
    if (const auto* message = std::get_if<MessageFrames::Place>(&frame.place)) messages_.GiveUp(*message);
  }
}

Result<FramesIn::Judged> FramesIn::OnHeader(const LinkId& lane, const SegmentHeader& header) {
  links_.Heard(lane.other);
  if (header.kind == SegmentKind::kProbe) return Judged{};
  ctx_.counts.bytes_received += kSegmentHeaderBytes + header.payload_bytes;
  RINGWAY_REACHED_IF(ctx_.views.IsOld(header.epoch), kSkipOldEpoch);
  if (ctx_.views.ended() || ctx_.views.IsOld(header.epoch)) return Judged{};
  if (header.kind == SegmentKind::kMessage) return OnMessageHeader(lane, header);
  // Before the channels' beginnings are known, too, which come with the view.
  if (header.epoch > ctx_.view().epoch) {
    if (RINGWAY_MUTANT(kDropEarlyFrames)) return Judged{};
    return Hold(lane, header);
  }
  if (table_.IsTooFarAhead(header.op))
    return Status(Code::kProtocol, "segment of an operation far ahead of its channel");
  const auto rank = ctx_.view().RankOf(lane.other);
  if (!rank) return Status(Code::kProtocol, "segment from a peer that is no member of its view");
  RINGWAY_REACHED_IF(table_.IsFinished(header.op), kSkipFinished);
  if (table_.IsFinished(header.op)) return Judged{};
  Operation* op = table_.Find(header.op);
  const bool fetched = header.kind == SegmentKind::kFetched;
  if (op == nullptr || (op->stage == Stage::kQueued && !fetched)) {
    if (fetched) return Judged{};
    return Hold(lane, header);
  }
  queue_.MarkReady(*op, lane.other);
  if (!CheckDescriptor(*op, header.descriptor, lane.other)) return Judged{.inbound = {}, .differs = true};
  if (!op->executor || op->has_outcome() || fetched != op->fetching) return Judged{};
  Result<collective::Executor::Claim> claim = op->executor->Take(header, *rank);
  if (!claim.ok()) return claim.status();
  RINGWAY_REACHED_IF(claim.value().skipped, kSkipFilled);
  if (claim.value().skipped) return Judged{};
  watch_.Moved();
  guard_.ChooseTarget(*op, claim.value());
  in_flight_.insert_or_assign(lane, InFlight{header, Claimed{op->attempt, claim.value()}});
  Inbound inbound;
  inbound.kind = claim.value().direct != nullptr ? Inbound::Kind::kDirect : Inbound::Kind::kScratch;
  inbound.target = claim.value().direct;
  inbound.attempt = op->attempt;
  if (inbound.target != nullptr) inbound.keep = op->buffers;
  return Judged{std::move(inbound)};
}

Result<FramesIn::Judged> FramesIn::OnMessageHeader(const LinkId& lane, const SegmentHeader& header) {
  Result<MessageFrames::Judged> judged = messages_.OnHeader(lane.other, header);
  if (!judged.ok()) return judged.status();
  watch_.Moved();
  MessageFrames::Judged& message = judged.value();
  if (message.place) in_flight_.insert_or_assign(lane, InFlight{header, std::move(*message.place)});
  return Judged{.inbound = std::move(message.inbound), .differs = message.differs};
}

Result<FramesIn::Judged> FramesIn::Hold(const LinkId& lane, const SegmentHeader& header) {
  // Beyond the window: what was begun within it, and each channel's next small operation (twice its bytes travel).
  const std::uint64_t bound = ctx_.view().plan.eager_bytes_max + kPayloadBytesMax +
                              abi::kChannelCountMax * 2 * ctx_.view().plan.small_bytes_max;
  if (held_.BytesFrom(lane.other) + EarlyFrames::Cost(header) > bound) {
    return Status(Code::kProtocol, "more eager bytes than the plan allows");
  }
  watch_.Moved();
  EarlyFrame frame = held_.Reserve(lane.other, header);
  RINGWAY_REACHED_IF(frame.payload != nullptr, kHoldEarlyFrame);
  if (frame.payload == nullptr) {
    RINGWAY_REACHED(kSkipWithoutRoom);
    held_.Add(std::move(frame));
    return Judged{};
  }
  Inbound inbound;
  inbound.kind = Inbound::Kind::kDirect;
  inbound.target = frame.payload->data();
  inbound.keep = frame.payload;
  in_flight_.insert_or_assign(lane, InFlight{header, std::move(frame)});
  return Judged{std::move(inbound)};
}

bool FramesIn::CheckDescriptor(Operation& op, const Descriptor& theirs, PeerId from) {
  const auto rank = ctx_.view().RankOf(from);
  const Descriptor ours = rank ? op.DescriptorWith(*ctx_.view().RankOf(ctx_.self), *rank) : op.submission.descriptor;
  if (theirs == ours || RINGWAY_MUTANT(kIgnoreMismatch)) return true;
  if (RINGWAY_MUTANT(kCompareNoCounts) && theirs.kind == ours.kind && ours.kind == OpKind::kAllToAllV) return true;
  if (op.mismatch.empty() && !op.has_outcome()) {
    op.mismatch = ctx_.NameOf(ctx_.self) + " submitted " + ToString(ours) + "; " + ctx_.NameOf(from) + " submitted " +
                  ToString(theirs) + " as operation " + ToString(op.name);
    membership_.RequestRecoveryLater("mismatch: " + op.mismatch);
  }
  return false;
}

bool FramesIn::IsOver(const InFlight& frame) {
  if (ctx_.views.IsOld(frame.header.epoch)) return true;
  if (const auto* message = std::get_if<MessageFrames::Place>(&frame.place)) return !messages_.IsAwaited(*message);
  const auto* claimed = std::get_if<Claimed>(&frame.place);
  return claimed != nullptr && !attempts_.IsLive(claimed->attempt);
}

Result<FramesIn::Taken> FramesIn::OnPayload(const LinkId& lane, std::span<const std::byte> payload,
                                            std::uint64_t hash) {
  const auto found = in_flight_.find(lane);
  if (found == in_flight_.end() || std::holds_alternative<std::monostate>(found->second.place)) return Taken{};
  const SegmentHeader& header = found->second.header;
  if (IsOver(found->second)) {
    GiveUp(found->second);  // unjudged: its sender's trainer may have its memory back
    return Taken{};
  }
  if (payload.size() != header.payload_bytes || hash != header.payload_hash) {
    RINGWAY_REACHED(kRefusePayload);
    links_.Refuse(lane);
    OnFailedPayload(found->second);
    GiveUp(found->second);
    return Status(Code::kProtocol, "segment payload fails its checksum");
  }
  const InFlight frame = std::exchange(found->second, {});
  watch_.Moved();
  return Take(frame, payload);
}

void FramesIn::OnFailedPayload(const InFlight& frame) {
  if (const auto* message = std::get_if<MessageFrames::Place>(&frame.place)) messages_.OnFailedPayload(*message);
  const auto* claimed = std::get_if<Claimed>(&frame.place);
  if (claimed == nullptr) return;
  if (const Operation* op = table_.Find(frame.header.op)) guard_.OnFailedPayload(*op, claimed->attempt, claimed->claim);
}

FramesIn::Taken FramesIn::Take(const InFlight& frame, std::span<const std::byte> payload) {
  if (const auto* message = std::get_if<MessageFrames::Place>(&frame.place)) {
    messages_.Accept(*message, frame.header, payload);
    return {Taken::As::kMessage, nullptr};
  }
  Operation* op = table_.Find(frame.header.op);
  if (const auto* held = std::get_if<EarlyFrame>(&frame.place)) {
    held_.Add(*held);
    // Its operation may have been submitted, or its view installed, while the payload was on the way.
    if (table_.IsFinished(frame.header.op)) held_.Drop(frame.header.op, frame.header.epoch);
    return {Taken::As::kHeld, op};
  }
  const Claimed& claimed = std::get<Claimed>(frame.place);
  RINGWAY_CHECK(op != nullptr && op->executor && op->attempt == claimed.attempt);
  guard_.CheckTarget(*op, claimed.claim);
  op->executor->Accept(claimed.claim, frame.header, payload);
  AskAgain(*op);
  return {Taken::As::kAccepted, op};
}

void FramesIn::Drop(const LinkId& lane) {
  const auto found = in_flight_.find(lane);
  if (found == in_flight_.end()) return;
  GiveUp(found->second);
  in_flight_.erase(found);
}

void FramesIn::GiveUp(InFlight& frame) {
  if (const auto* held = std::get_if<EarlyFrame>(&frame.place)) {
    held_.Unreserve(*held);
  } else if (const auto* message = std::get_if<MessageFrames::Place>(&frame.place)) {
    messages_.GiveUp(*message);
  } else if (const auto* claimed = std::get_if<Claimed>(&frame.place);
             claimed != nullptr && attempts_.IsLive(claimed->attempt)) {
    Operation* op = table_.Find(frame.header.op);
    if (op != nullptr && op->executor) op->executor->Release(claimed->claim);
  }
  frame = {};
}

void FramesIn::DropAllOf(PeerId other) {
  std::vector<LinkId> lanes;
  for (const auto& [lane, frame] : in_flight_) {
    if (lane.other == other) lanes.push_back(lane);
  }
  for (const LinkId& lane : lanes) Drop(lane);
}

// ---------------------------------------------------------------------------------------------- held

std::uint64_t FramesIn::Feed(Operation& op, std::uint64_t bytes_max) {
  std::uint64_t bytes = 0;
  while (bytes < bytes_max) {
    const std::optional<EarlyFrame> frame = held_.TakeNext(op.name, ctx_.view().epoch);
    if (!frame) break;
    const SegmentHeader& header = frame->header;
    bytes += EarlyFrames::Cost(header);
    if (frame->payload != nullptr) {
      if (!Accept(op, header, frame->from, *frame->payload)) break;
    } else if (!op.fetching && !RINGWAY_MUTANT(kForgetRefused)) {
      if (!CheckDescriptor(op, header.descriptor, frame->from)) break;
      const Executor::Wanted wanted{Rank(), header.step, header.chunk, header.segment};
      links_.Send(frame->from, AgainMessage(ctx_.view().epoch, op.name, wanted));
    }
  }
  return bytes;
}

bool FramesIn::Accept(Operation& op, const SegmentHeader& header, PeerId from, std::span<const std::byte> payload) {
  const auto rank = ctx_.view().RankOf(from);
  if (!rank || header.kind != SegmentKind::kData || op.fetching) return true;
  queue_.MarkReady(op, from);
  if (!CheckDescriptor(op, header.descriptor, from)) return false;
  Result<collective::Executor::Claim> claim = op.executor->Take(header, *rank);
  if (!claim.ok()) {
    membership_.RequestRecoveryLater("held segment: " + claim.status().text());
    return false;
  }
  if (claim.value().skipped) return true;
  if (claim.value().direct != nullptr) std::memcpy(claim.value().direct, payload.data(), payload.size());
  op.executor->Accept(claim.value(), header, payload);
  return true;
}

// ---------------------------------------------------------------------------------------------- segments without room

void FramesIn::AskAgain(Operation& op) {
  for (const Executor::Wanted& wanted : op.executor->TakeAgain()) {
    links_.Send(ctx_.view().members[wanted.from.value], AgainMessage(ctx_.view().epoch, op.name, wanted));
  }
}

}  // namespace ringway::agreement
