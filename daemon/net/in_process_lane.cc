#include "daemon/net/in_process_lane.h"

#include <asio/post.hpp>
#include <cstring>
#include <span>
#include <utility>

#include "proto/check.h"
#include "proto/hash.h"

namespace ringway::net {

void InProcessLane::Start(std::unique_ptr<Stream> stream, LaneSink* sink) {
  RINGWAY_CHECK(stream == nullptr && sink_ == nullptr && sink != nullptr);
  sink_ = sink;
}

void InProcessLane::Close() {
  sink_ = nullptr;
  CloseOther();
}

void InProcessLane::Retire(Keep keep) {
  Close();
  asio::post(context_, [keep = std::move(keep)] { keep(nullptr); });
}

bool InProcessLane::Send(links::Outbound outbound) {
  RINGWAY_CHECK(idle());
  outbound_ = std::move(outbound);
  sending_ = true;
  asio::post(context_, [self = shared_from_this(), other = other_.lock()] { other->Take(*self); });
  return false;
}

void InProcessLane::Take(InProcessLane& from) {
  const links::Outbound outbound = std::exchange(from.outbound_, {});
  // Whoever has closed its end may have its memory back.
  if (sink_ != nullptr && from.sink_ != nullptr) Deliver(from, outbound);
  from.sending_ = false;
  if (from.sink_ != nullptr) from.sink_->OnLaneIdle();
}

void InProcessLane::Deliver(const InProcessLane& from, const links::Outbound& outbound) {
  auto header = DecodeSegmentHeader(outbound.header);
  if (!header.ok()) return Fail(header.status().text());
  std::span<const std::byte> payload = outbound.payload;
  if (outbound.attempt != 0 && !from.sink_->IsAttemptLive(outbound.attempt)) {
    header.value().kind = SegmentKind::kProbe;
    header.value().payload_bytes = 0;
    payload = {};
  }
  const Result<links::Inbound> inbound = sink_->OnLaneHeader(label().link, header.value());
  if (sink_ == nullptr) return;
  if (!inbound.ok()) return Fail(inbound.status().text());
  if (inbound.value().kind == links::Inbound::Kind::kDiscard) return;
  const bool is_direct = inbound.value().kind == links::Inbound::Kind::kDirect;
  const bool is_hashed = header.value().payload_hash != 0;
  if (is_direct || is_hashed) payload = CopyOf(payload, is_direct ? inbound.value().target : nullptr);
  const Status status = sink_->OnLanePayload(label().link, payload, is_hashed ? Hash64(payload) : 0);
  if (sink_ != nullptr && !status.ok()) Fail(status.text());
}

std::span<const std::byte> InProcessLane::CopyOf(std::span<const std::byte> payload, std::byte* target) {
  if (target == nullptr && copy_.size() < payload.size()) copy_.resize(payload.size());
  std::byte* const to = target != nullptr ? target : copy_.data();
  if (!payload.empty()) std::memcpy(to, payload.data(), payload.size());
  return {to, payload.size()};
}

void InProcessLane::Fail(const std::string& why) {
  CloseOther();
  asio::post(context_, [self = shared_from_this(), why] {
    LaneSink* const sink = std::exchange(self->sink_, nullptr);
    if (sink != nullptr) sink->OnLaneClosed(self->label().link, why);
  });
}

void InProcessLane::CloseOther() {
  const std::shared_ptr<InProcessLane> other = other_.lock();
  other_.reset();
  if (other != nullptr) asio::post(context_, [other] { other->OnOtherClosed(); });
}

void InProcessLane::OnOtherClosed() {
  other_.reset();
  LaneSink* const sink = std::exchange(sink_, nullptr);
  if (sink != nullptr) sink->OnLaneClosed(label().link, "the other end has closed it");
}

}  // namespace ringway::net
