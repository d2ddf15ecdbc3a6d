#include "daemon/agreement/frame_router.h"

#include <utility>

#include "proto/local_abi.h"
#include "proto/rules.h"

namespace ringway::agreement {

Result<Judged> FrameRouter::OnHeader(const LinkId& lane, const SegmentHeader& header) {
  links_.Heard(lane.other);
  if (header.kind == SegmentKind::kProbe) return Judged{};
  ctx_.counts.bytes_received += kSegmentHeaderBytes + header.payload_bytes;
  RINGWAY_REACHED_IF(ctx_.views.IsOld(header.epoch), kSkipOldEpoch);
  if (ctx_.views.ended() || ctx_.views.IsOld(header.epoch)) return Judged{};
  if (header.kind != SegmentKind::kMessage) return operations_.OnHeader(lane, header);
  Result<Judged> judged = messages_.OnHeader(lane, header);
  if (judged.ok()) ctx_.Moved();
  return judged;
}

bool FrameRouter::IsOver(const transfer::FramesIn::Frame& frame) const {
  if (ctx_.views.IsOld(frame.header.epoch)) return true;
  if (frame.header.kind == SegmentKind::kMessage) return !messages_.IsAwaited(frame);
  return !frame.held && !transfer_.attempts.IsLive(frame.attempt);
}

Result<bool> FrameRouter::OnPayload(const LinkId& lane, std::span<const std::byte> payload, std::uint64_t hash) {
  const transfer::FramesIn::Frame* const frame = transfer_.in.Find(lane);
  if (frame == nullptr) return false;
  if (IsOver(*frame)) {
    transfer_.in.Drop(lane);  // unjudged: its sender's trainer may have its memory back
    return false;
  }
  if (!transfer::FramesIn::IsIntact(*frame, payload, hash)) {
    RINGWAY_REACHED(kRefusePayload);
    links_.Refuse(lane);
    transfer_.in.Refuse(lane);
    return Status(Code::kProtocol, "segment payload fails its checksum");
  }
  ctx_.Moved();
  const bool is_message = frame->header.kind == SegmentKind::kMessage;
  transfer::FramesIn::Frame taken = transfer_.in.Take(lane);
  is_message ? messages_.OnPayload(taken, payload) : operations_.OnPayload(taken, payload);
  return true;
}

bool FrameRouter::Next(const LinkId& lane, std::uint32_t payload_bytes_max, std::span<std::byte> scratch,
                       Outbound& out) {
  const auto rank = ctx_.view().RankOf(lane.other);
  if (!ctx_.views.running() || !rank || !links_.IsUp(lane)) return false;
  links::SentFrame sent;
  const transfer::FramesOut::Offer offer{.lane = lane,
                                         .rank = *rank,
                                         .bytes_max = payload_bytes_max,
                                         .scratch = scratch,
                                         .in_process = links_.IsInProcess(lane)};
  if (!transfer_.out.Next(offer, out, sent)) return false;
  ctx_.Moved();
  links_.CountOut(lane, sent);
  return true;
}

// Each once.
void FrameRouter::AddPeersWithWork(std::vector<PeerId>& peers) const {
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
  transfer_.out.ForEachWithWork(add, [&](PeerId peer) {
    if (const auto rank = ctx_.view().RankOf(peer)) add(*rank);
  });
}

}  // namespace ringway::agreement
