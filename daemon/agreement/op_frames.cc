#include "daemon/agreement/op_frames.h"

#include <optional>
#include <utility>

#include "daemon/agreement/messages.h"
#include "proto/local_abi.h"
#include "proto/mutation.h"
#include "proto/rules.h"

namespace ringway::agreement {

using transfer::EarlyFrame;
using transfer::EarlyRoom;

Result<Judged> OpFrames::OnHeader(const LinkId& lane, const SegmentHeader& header) {
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
  transfer_.queue.MarkReady(op->attempt, lane.other);
  if (!CheckDescriptor(*op, header.descriptor, lane.other)) return Judged{.inbound = {}, .differs = true};
  if (!op->attempt.live() || op->has_outcome() || fetched != op->fetching) return Judged{};
  const collective::HostRound* const round = op->attempt.round();
  if (round != nullptr && round->Includes(*rank)) return Judged{};  // it misses a member that has gone: the view ends
  Result<Inbound> inbound = transfer_.in.Claim(lane, header, op->attempt, *rank);
  if (!inbound.ok()) return inbound.status();
  if (inbound.value().kind != Inbound::Kind::kDiscard) ctx_.Moved();
  return Judged{.inbound = std::move(inbound).value()};
}

Result<Judged> OpFrames::Hold(const LinkId& lane, const SegmentHeader& header) {
  // Beyond the window: what was begun within it, and each channel's next small operation (twice its bytes travel).
  const std::uint64_t bound = ctx_.view().plan.eager_bytes_max + kPayloadBytesMax +
                              abi::kChannelCountMax * 2 * ctx_.view().plan.small_bytes_max;
  if (transfer_.early_room.BytesFrom(lane.other) + EarlyRoom::Cost(header) > bound) {
    return Status(Code::kProtocol, "more eager bytes than the plan allows");
  }
  ctx_.Moved();
  EarlyFrame frame = transfer_.early_room.Reserve(lane.other, header);
  RINGWAY_REACHED_IF(frame.payload != nullptr, kHoldEarlyFrame);
  if (frame.payload != nullptr) return Judged{.inbound = transfer_.in.Hold(lane, std::move(frame))};
  RINGWAY_REACHED(kSkipWithoutRoom);
  held_.Add(std::move(frame));
  return Judged{};
}

bool OpFrames::CheckDescriptor(Operation& op, const Descriptor& theirs, PeerId from) {
  const auto rank = ctx_.view().RankOf(from);
  const Descriptor ours = rank ? op.DescriptorWith(*ctx_.view().RankOf(ctx_.self), *rank) : op.submission.descriptor;
  if (theirs == ours || RINGWAY_MUTANT(kIgnoreMismatch)) return true;
  if (RINGWAY_MUTANT(kCompareNoCounts) && theirs.kind == ours.kind && ours.kind == OpKind::kAllToAllV) return true;
  std::string& mismatch = op.obstacles.mismatch;
  if (mismatch.empty() && !op.has_outcome()) {
    mismatch = ctx_.NameOf(ctx_.self) + " submitted " + ToString(ours) + "; " + ctx_.NameOf(from) + " submitted " +
               ToString(theirs) + " as operation " + ToString(op.name);
    ctx_.RequestRecoveryLater("mismatch: " + mismatch);
  }
  return false;
}

bool OpFrames::CheckRound(Operation& op) {
  const collective::HostRound* const round = op.attempt.round();
  if (round == nullptr) return false;
  const collective::HostRound::Seat* const other = round->DiffersFrom(op.attempt.rank());
  if (other != nullptr) (void)CheckDescriptor(op, other->executor->descriptor(), other->peer);
  return round->has_all();
}

OpFrames::Taken OpFrames::Take(transfer::FramesIn::Frame& frame, std::span<const std::byte> payload) {
  const OpName name = frame.header.op;
  if (!frame.held) {
    transfer_.in.Accept(frame, payload);
    Operation* op = table_.Find(name);
    RequestResends(*op);
    return {.op = op, .accepted = true};
  }
  const Epoch epoch = frame.header.epoch;
  held_.Add(std::move(*frame.held));
  // Its operation may have been submitted, or its view installed, while the payload was on the way.
  if (table_.IsFinished(name)) held_.Drop(name, epoch);
  return {.op = table_.Find(name)};
}

// ---------------------------------------------------------------------------------------------- held

std::uint64_t OpFrames::Feed(Operation& op, std::uint64_t bytes_max) {
  std::uint64_t bytes = 0;
  while (bytes < bytes_max) {
    const std::optional<EarlyFrame> frame = held_.TakeNext(op.name, ctx_.view().epoch);
    if (!frame) break;
    bytes += EarlyRoom::Cost(frame->header);
    if (!FeedOne(op, *frame)) break;
  }
  return bytes;
}

bool OpFrames::FeedOne(Operation& op, const EarlyFrame& frame) {
  const SegmentHeader& header = frame.header;
  if (frame.payload == nullptr) {
    if (op.fetching || RINGWAY_MUTANT(kForgetRefused)) return true;
    if (!CheckDescriptor(op, header.descriptor, frame.from)) return false;
    const collective::Executor::Wanted wanted{Rank(), header.step, header.chunk, header.segment};
    links_.Send(frame.from, ResendMessage(ctx_.view().epoch, op.name, wanted));
    return true;
  }
  const auto rank = ctx_.view().RankOf(frame.from);
  if (!rank || header.kind != SegmentKind::kData || op.fetching) return true;
  transfer_.queue.MarkReady(op.attempt, frame.from);
  if (!CheckDescriptor(op, header.descriptor, frame.from)) return false;
  const Result<bool> fed = transfer::FramesIn::Feed(op.attempt, header, *rank, *frame.payload);
  if (!fed.ok()) ctx_.RequestRecoveryLater("held segment: " + fed.status().text());
  return fed.ok();
}

// ---------------------------------------------------------------------------------------------- segments without room

void OpFrames::RequestResends(Operation& op) {
  for (const collective::Executor::Wanted& wanted : op.attempt.executor().TakeResends()) {
    links_.Send(ctx_.view().members[wanted.from.value], ResendMessage(ctx_.view().epoch, op.name, wanted));
  }
}

}  // namespace ringway::agreement
