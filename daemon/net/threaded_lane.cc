#include "daemon/net/threaded_lane.h"

#include <cstring>
#include <utility>

#include "proto/check.h"

namespace ringway::net {

// ---- on the lane thread

LaneFarEnd::LaneFarEnd(std::shared_ptr<LaneCrossing> crossing, LaneThread& thread, Doorbell& home,
                       std::shared_ptr<Doorbell::Sink> near, LaneLabel label)
    : crossing_(std::move(crossing)), thread_(thread), home_(home), near_(std::move(near)), label_(label) {}

void LaneFarEnd::OnRung() {
  if (crossing_->close.load(std::memory_order_acquire)) return End();
  if (crossing_->beginning != nullptr) Begin();
  if (stream_ == nullptr) return;  // it retires
  crossing_->frames.Reclaim();
  if (crossing_->send.exchange(false, std::memory_order_acquire) && stream_->idle()) {
    const links::Outbound& outbound = crossing_->outbound;
    if (stream_->Send({.header = outbound.header, .payload = outbound.payload, .keep = nullptr})) OnLaneIdle();
  }
  if (crossing_->retire.exchange(false, std::memory_order_acquire)) Retire();
}

void LaneFarEnd::Begin() {
  stream_ = std::make_shared<StreamLane>(thread_.context(), thread_.pool(), label_, kPayloadBytesMax);
  stream_->Start(std::move(crossing_->beginning), this);
}

// Held by the stream's own waits from now on, not by the owner: what ends them, ends it.
void LaneFarEnd::Retire() {
  crossing_->frames.Clear();
  std::exchange(stream_, nullptr)
      ->Retire(
          [self = shared_from_this(), keep = std::exchange(crossing_->keep, nullptr)](std::unique_ptr<Stream> stream) {
            self->End();
            keep(std::move(stream));
          });
}

void LaneFarEnd::End() {
  if (near_ == nullptr) return;
  if (stream_ != nullptr) stream_->Close();
  stream_ = nullptr;
  crossing_->beginning.reset();
  crossing_->frames.Clear();
  crossing_->closed.store(true, std::memory_order_release);
  home_.Ring(std::exchange(near_, nullptr));
}

Result<links::Inbound> LaneFarEnd::OnLaneHeader(const links::LinkId&, const SegmentHeader& header) {
  header_ = header;
  return links::Inbound{.kind = links::Inbound::Kind::kScratch, .target = nullptr, .attempt = 0, .keep = nullptr};
}

Status LaneFarEnd::OnLanePayload(const links::LinkId&, std::span<const std::byte>, std::uint64_t hash) {
  const bool pushed = crossing_->frames.Push({.header = header_, .payload = stream_->TakeScratch(), .hash = hash});
  RINGWAY_CHECK(pushed);  // the ring has a place for each buffer of a peer
  home_.Ring(near_);
  return Status::Ok();
}

void LaneFarEnd::OnLaneIdle() {
  crossing_->written.store(true, std::memory_order_release);
  home_.Ring(near_);
}

void LaneFarEnd::OnLaneClosed(const links::LinkId&, const std::string& why) {
  crossing_->why_failed = why;
  crossing_->failed.store(true, std::memory_order_release);
  home_.Ring(near_);
}

// ---- on the owner's thread

ThreadedLane::ThreadedLane(Doorbell& home, LaneThread& thread, LaneLabel label, std::uint32_t send_payload_bytes_max)
    : Lane(label, send_payload_bytes_max), home_(home), thread_(thread) {}

ThreadedLane::~ThreadedLane() = default;

void ThreadedLane::Start(std::unique_ptr<Stream> stream, LaneSink* sink) {
  RINGWAY_CHECK(far_ == nullptr && sink != nullptr);
  sink_ = sink;
  // Null if descriptors ran out: its traffic is not measured, and the lane thread's close ends the connection.
  path_ = stream->SharePath();
  BeginTraffic();
  crossing_->beginning = std::move(stream);
  far_ = std::make_shared<LaneFarEnd>(crossing_, thread_, home_, shared_from_this(), label());
  thread_.bell().Ring(far_);
}

void ThreadedLane::Close() {
  sink_ = nullptr;
  if (!taking_) LeaveFarEnd();
}

void ThreadedLane::Retire(Keep keep) {
  crossing_->keep = std::move(keep);
  Close();
}

void ThreadedLane::LeaveFarEnd() {
  if (far_ == nullptr) return;
  const bool retires = crossing_->keep != nullptr;
  // Ends the connection at once, even if the lane thread does not get to closing it.
  if (!retires && path_ != nullptr) path_->Shutdown();
  path_ = nullptr;
  (retires ? crossing_->retire : crossing_->close).store(true, std::memory_order_release);
  thread_.bell().Ring(std::exchange(far_, nullptr));
}

bool ThreadedLane::Send(links::Outbound outbound) {
  RINGWAY_CHECK(idle());
  sending_ = true;
  crossing_->outbound = std::move(outbound);
  crossing_->send.store(true, std::memory_order_release);
  thread_.bell().Ring(far_);
  return false;
}

void ThreadedLane::OnRung() {
  // Loaded before the frames are taken: then those received before the failure are in the ring.
  const bool failed = crossing_->failed.load(std::memory_order_acquire);
  if (crossing_->closed.load(std::memory_order_acquire)) crossing_->outbound.keep.reset();
  if (crossing_->written.exchange(false, std::memory_order_acquire)) {
    crossing_->outbound.keep.reset();
    sending_ = false;
    if (sink_ != nullptr) sink_->OnLaneIdle();
  }
  const Status status = TakeFrames();
  if (!status.ok()) {
    LaneSink* const sink = sink_;
    Close();
    return sink->OnLaneClosed(label().link, status.text());
  }
  if (failed && sink_ != nullptr && crossing_->frames.Front() == nullptr) Fail(crossing_->why_failed);
}

Status ThreadedLane::TakeFrames() {
  std::size_t turn_bytes = 0;
  while (sink_ != nullptr) {
    const LaneCrossing::Frame* frame = crossing_->frames.Front();
    if (frame == nullptr) break;
    if (turn_bytes >= kTurnBytes) {
      home_.Ring(shared_from_this());
      break;
    }
    turn_bytes += kSegmentHeaderBytes + frame->header.payload_bytes;
    taking_ = true;
    Status status = Take(*frame);
    taking_ = false;
    if (!status.ok()) return status;
    if (sink_ != nullptr) crossing_->frames.Pop();
  }
  if (sink_ == nullptr) {
    LeaveFarEnd();
  } else if (turn_bytes > 0) {
    thread_.bell().Ring(far_);  // buffers are free again
  }
  return Status::Ok();
}

Status ThreadedLane::Take(const LaneCrossing::Frame& frame) {
  const auto inbound = sink_->OnLaneHeader(label().link, frame.header);
  if (sink_ == nullptr) return Status::Ok();
  if (!inbound.ok()) return inbound.status();
  std::span<const std::byte> payload(frame.payload.data(), frame.header.payload_bytes);
  switch (inbound.value().kind) {
    case links::Inbound::Kind::kDirect:
      if (!payload.empty()) std::memcpy(inbound.value().target, payload.data(), payload.size());
      payload = {inbound.value().target, payload.size()};
      break;
    case links::Inbound::Kind::kScratch:
      break;
    case links::Inbound::Kind::kDiscard:
      return Status::Ok();
  }
  const Status status = sink_->OnLanePayload(label().link, payload, frame.hash);
  return sink_ == nullptr ? Status::Ok() : status;
}

// The sink may retire it.
void ThreadedLane::Fail(const std::string& why) {
  std::exchange(sink_, nullptr)->OnLaneClosed(label().link, why);
  LeaveFarEnd();
}

}  // namespace ringway::net
