#include "daemon/transfer/frames_in.h"

#include <cstring>
#include <utility>

#include "proto/check.h"
#include "proto/rules.h"

namespace ringway::transfer {

using collective::Executor;
using links::LinkId;

Result<links::Inbound> FramesIn::Claim(const LinkId& lane, const SegmentHeader& header, Attempt& attempt, Rank from) {
  Result<Executor::Claim> claimed = attempt.executor().Take(header, from);
  if (!claimed.ok()) return claimed.status();
  Executor::Claim& claim = claimed.value();
  RINGWAY_REACHED_IF(claim.skipped, kSkipFilled);
  if (claim.skipped) return links::Inbound{};
  guard_.ChooseTarget(attempt, claim);
  frames_[lane].emplace(Frame{.header = header, .attempt = attempt.number(), .claim = claim});
  links::Inbound inbound;
  inbound.kind = claim.direct != nullptr ? links::Inbound::Kind::kDirect : links::Inbound::Kind::kScratch;
  inbound.adds = attempt.executor().arrivals()[claim.arrival].reduce;
  inbound.target = claim.direct;
  inbound.attempt = attempt.number();
  if (inbound.target != nullptr) inbound.keep = attempt.buffers;
  return inbound;
}

links::Inbound FramesIn::Hold(const LinkId& lane, EarlyFrame frame) {
  links::Inbound inbound;
  inbound.kind = links::Inbound::Kind::kDirect;
  inbound.target = frame.payload->data();
  inbound.keep = frame.payload;
  const SegmentHeader header = frame.header;
  frames_[lane].emplace(Frame{.header = header, .held = std::move(frame)});
  return inbound;
}

const FramesIn::Frame* FramesIn::Find(const LinkId& lane) const {
  const auto found = frames_.find(lane);
  return found == frames_.end() || !found->second ? nullptr : &*found->second;
}

void FramesIn::Refuse(const LinkId& lane) {
  std::optional<Frame>& frame = frames_.at(lane);
  if (const Attempt* attempt = attempts_.Find(frame->attempt)) guard_.OnFailedPayload(*attempt, frame->claim);
  GiveUp(frame);
}

void FramesIn::Drop(const LinkId& lane) {
  const auto found = frames_.find(lane);
  if (found == frames_.end()) return;
  GiveUp(found->second);
  frames_.erase(found);
}

void FramesIn::GiveUp(std::optional<Frame>& frame) {
  if (!frame) return;
  if (Attempt* attempt = attempts_.Find(frame->attempt)) attempt->executor().Release(frame->claim);
  frame.reset();
}

void FramesIn::DropAllOf(PeerId other) {
  for (auto it = frames_.lower_bound({.other = other, .control = false, .lane = {}});
       it != frames_.end() && it->first.other == other;) {
    GiveUp(it->second);
    it = frames_.erase(it);
  }
}

FramesIn::Frame FramesIn::Take(const LinkId& lane) {
  std::optional<Frame>& frame = frames_.at(lane);
  Frame taken = std::move(*frame);
  frame.reset();
  return taken;
}

Attempt& FramesIn::Accept(const Frame& frame, std::span<const std::byte> payload) {
  Attempt* attempt = attempts_.Find(frame.attempt);
  RINGWAY_CHECK(attempt != nullptr);
  guard_.CheckTarget(*attempt, frame.claim);
  attempt->executor().Accept(frame.claim, frame.header, payload);
  return *attempt;
}

Result<bool> FramesIn::Feed(Attempt& attempt, const SegmentHeader& header, Rank from,
                            std::span<const std::byte> payload) {
  const Result<Executor::Claim> claim = attempt.executor().Take(header, from);
  if (!claim.ok()) return claim.status();
  if (claim.value().skipped) return false;
  if (claim.value().direct != nullptr) std::memcpy(claim.value().direct, payload.data(), payload.size());
  attempt.executor().Accept(claim.value(), header, payload);
  return true;
}

}  // namespace ringway::transfer
