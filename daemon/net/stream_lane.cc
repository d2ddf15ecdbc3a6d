#include "daemon/net/stream_lane.h"

#include <algorithm>
#include <asio/post.hpp>
#include <cstring>
#include <utility>

#include "proto/check.h"
#include "proto/hash.h"

#if defined(__SANITIZE_THREAD__)
extern "C" void AnnotateIgnoreReadsBegin(const char* file, int line);
extern "C" void AnnotateIgnoreReadsEnd(const char* file, int line);
#endif

namespace ringway::net {
namespace {

// The owner may write to a payload's memory before its thread is notified that the kernel has read it. Either what it
// writes depends on the payload (a sum that includes it), so the read is over, or the attempt was aborted, so nobody
// uses what is read. ThreadSanitizer sees neither.
StreamIo WritePayload(Stream& stream, WriteParts from) {
#if defined(__SANITIZE_THREAD__)
  AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
#endif
  StreamIo io = stream.Write(from);
#if defined(__SANITIZE_THREAD__)
  AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
#endif
  return io;
}

// The sink of a lane that retires: what still arrives is skipped.
class SkippingSink final : public LaneSink {
 public:
  static SkippingSink* Get() {
    static SkippingSink sink;
    return &sink;
  }

 private:
  Result<links::Inbound> OnLaneHeader(const links::LinkId&, const SegmentHeader&) override { return links::Inbound{}; }
  Status OnLanePayload(const links::LinkId&, std::span<const std::byte>, std::uint64_t) override {
    return Status::Ok();
  }
  bool IsAttemptLive(std::uint64_t) override { return false; }
  void OnLaneIdle() override {}
  void OnLaneClosed(const links::LinkId&, const std::string&) override {}
};

}  // namespace

StreamLane::StreamLane(asio::io_context& context, ScratchPool& pool, LaneLabel label,
                       std::uint32_t send_payload_bytes_max)
    : Lane(label, send_payload_bytes_max), context_(context), pool_(pool), account_(pool.AccountOf(label.self)) {}

StreamLane::~StreamLane() = default;

void StreamLane::Start(std::unique_ptr<Stream> stream, LaneSink* sink) {
  RINGWAY_CHECK(sink_ == nullptr && sink != nullptr);
  sink_ = sink;
  stream_ = std::move(stream);
  BeginTraffic();
  if (const Status status = stream_->Attach(context_); !status.ok()) return Fail(status.text());
  asio::post(context_, [self = shared_from_this()] { self->OnReadable(); });
}

void StreamLane::Close() {
  sink_ = nullptr;
  Reset();
}

void StreamLane::Reset() {
  stream_ = nullptr;
  inbound_.keep.reset();
  outbound_.keep.reset();
  outbound_.payload = {};
  scratch_.Reset();
}

void StreamLane::Fail(const std::string& why) {
  if (!open()) return;
  failed_ = true;
  Reset();
  if (retires()) return Release(nullptr);
  asio::post(context_, [self = shared_from_this(), why] {
    LaneSink* sink = std::exchange(self->sink_, nullptr);
    if (sink != nullptr) sink->OnLaneClosed(self->label().link, why);
  });
}

// ---- receiving

void StreamLane::OnReadable() {
  std::size_t turn_bytes = 0;
  while (open() && !ended_there_) {
    if (!Consume()) return;
    if (turn_bytes >= kTurnBytes) {
      asio::post(context_, [self = shared_from_this()] { self->OnReadable(); });
      return;
    }
    const StreamIo io = Receive();
    if (io.kind == StreamIo::Kind::kWouldBlock) return stream_->AwaitRead(shared_from_this());
    if (io.kind != StreamIo::Kind::kBytes) return Fail(io.why);
    turn_bytes += io.bytes;
  }
}

// Consumes the read-ahead buffer, except for a partial header.
bool StreamLane::Consume() {
  for (;;) {
    if (receiving_ == Receiving::kHeader) {
      if (available() < kSegmentHeaderBytes) break;
      if (!TakeHeader()) return false;
    }
    if (receiving_ == Receiving::kAwaitScratch) return false;
    if (!TakePayload()) return false;
    if (receiving_ == Receiving::kPayload) break;  // incomplete
  }
  if (begin_ > 0) {
    std::memmove(read_ahead_.data(), read_ahead_.data() + begin_, available());
    end_ -= begin_;
    begin_ = 0;
  }
  return true;
}

bool StreamLane::TakeHeader() {
  const auto bytes = std::span(read_ahead_).subspan(begin_).first<kSegmentHeaderBytes>();
  const auto header = DecodeSegmentHeader(bytes);
  if (!header.ok()) {
    Fail(header.status().text());
    return false;
  }
  begin_ += kSegmentHeaderBytes;
  if (header.value().kind == SegmentKind::kEnd) {
    OnEnd();
    return false;
  }
  auto inbound = sink_->OnLaneHeader(label().link, header.value());
  if (!open()) return false;
  if (!inbound.ok()) {
    Fail(inbound.status().text());
    return false;
  }
  inbound_ = std::move(inbound).value();
  payload_bytes_ = header.value().payload_bytes;
  payload_got_ = 0;
  receiving_ = Receiving::kPayload;
  if (inbound_.kind == links::Inbound::Kind::kScratch) {
    scratch_ = pool_.Acquire(account_, payload_bytes_);
    if (!scratch_) {
      receiving_ = Receiving::kAwaitScratch;
      pool_.Wait(account_, payload_bytes_, weak_from_this());
    }
  }
  return true;
}

void StreamLane::OnScratch(Scratch scratch) {
  if (!open() || receiving_ != Receiving::kAwaitScratch) return;  // `scratch` goes to the next in line
  scratch_ = std::move(scratch);
  receiving_ = Receiving::kPayload;
  asio::post(context_, [self = shared_from_this()] { self->OnReadable(); });
}

// Returns where the next payload byte goes; null: it is discarded. Called before every write to the target.
std::byte* StreamLane::PayloadTarget() {
  if (inbound_.kind == links::Inbound::Kind::kDirect && !sink_->IsAttemptLive(inbound_.attempt)) {
    inbound_ = {};
  }
  switch (inbound_.kind) {
    case links::Inbound::Kind::kDirect:
      return inbound_.target + payload_got_;
    case links::Inbound::Kind::kScratch:
      return scratch_.data() + payload_got_;
    case links::Inbound::Kind::kDiscard:
      break;
  }
  return nullptr;
}

bool StreamLane::TakePayload() {
  const std::size_t take = std::min(available(), payload_bytes_ - payload_got_);
  if (take > 0) {
    std::byte* target = PayloadTarget();
    if (target != nullptr) std::memcpy(target, read_ahead_.data() + begin_, take);
    begin_ += take;
    payload_got_ += take;
  }
  return payload_got_ < payload_bytes_ || PayloadWhole();
}

bool StreamLane::PayloadWhole() {
  receiving_ = Receiving::kHeader;
  if (inbound_.kind == links::Inbound::Kind::kDiscard) return true;
  const bool direct = inbound_.kind == links::Inbound::Kind::kDirect;
  const std::byte* payload = direct ? inbound_.target : scratch_.data();
  const links::Inbound held = std::exchange(inbound_, {});
  // Held here: the sink may close this lane while the payload is in use.
  whole_ = std::move(scratch_);
  const std::span whole(payload, payload_bytes_);
  const Status status = sink_->OnLanePayload(label().link, whole, Hash64(whole));
  whole_.Reset();
  if (!open()) return false;
  if (!status.ok()) {
    Fail(status.text());
    return false;
  }
  return true;
}

// One read of the stream: the rest of the payload, if in one, and the read-ahead buffer. REQUIRES: begin_ == 0.
StreamIo StreamLane::Receive() {
  std::array<std::span<std::byte>, 2> parts;
  std::size_t count = 0;
  std::size_t direct_bytes = 0;
  if (receiving_ == Receiving::kPayload) {
    direct_bytes = payload_bytes_ - payload_got_;
    std::byte* target = PayloadTarget();
    if (target == nullptr) {
      direct_bytes = std::min(direct_bytes, pool_.trash().size());
      target = pool_.trash().data();
    }
    parts[count++] = {target, direct_bytes};
    // A part of a discarded payload is followed by more of it, not by a header.
    if (payload_got_ + direct_bytes == payload_bytes_) parts[count++] = read_ahead_;
  } else {
    parts[count++] = std::span(read_ahead_).subspan(end_);
  }
  StreamIo io = stream_->Read(std::span(parts).first(count));
  const std::size_t direct_got = std::min(io.bytes, direct_bytes);
  payload_got_ += direct_got;
  end_ += io.bytes - direct_got;
  return io;
}

// ---- sending

bool StreamLane::Send(links::Outbound outbound) {
  RINGWAY_CHECK(idle());
  outbound_ = std::move(outbound);
  sent_bytes_ = 0;
  sending_ = true;
  return WriteOn();
}

bool StreamLane::WriteOn() {
  const std::size_t total = kSegmentHeaderBytes + outbound_.payload.size();
  while (sent_bytes_ < total) {
    std::array<std::span<const std::byte>, 2> parts;
    std::size_t count = 0;
    const std::size_t payload_sent = sent_bytes_ > kSegmentHeaderBytes ? sent_bytes_ - kSegmentHeaderBytes : 0;
    if (sent_bytes_ < kSegmentHeaderBytes) parts[count++] = std::span(outbound_.header).subspan(sent_bytes_);
    if (payload_sent < outbound_.payload.size()) parts[count++] = outbound_.payload.subspan(payload_sent);
    const StreamIo io = WritePayload(*stream_, std::span(parts).first(count));
    if (io.kind == StreamIo::Kind::kWouldBlock) {
      stream_->AwaitWrite(shared_from_this());
      return false;
    }
    if (io.kind != StreamIo::Kind::kBytes) {
      Fail(io.why);
      return false;
    }
    sent_bytes_ += io.bytes;
  }
  outbound_.keep.reset();
  outbound_.payload = {};
  sending_ = false;
  return true;
}

void StreamLane::OnWritable() {
  if (open() && WriteOn()) OnWritten();
}

void StreamLane::OnWritten() {
  if (!retires()) return sink_->OnLaneIdle();
  if (std::exchange(retiring_->said, true)) return ReleaseIfOver();
  SegmentHeader end;
  end.kind = SegmentKind::kEnd;
  outbound_ = {};
  EncodeSegmentHeader(end, outbound_.header);
  sent_bytes_ = 0;
  sending_ = true;
  if (WriteOn()) ReleaseIfOver();
}

// ---- the end

void StreamLane::Retire(Keep keep) {
  RINGWAY_CHECK(!retires());
  retiring_.emplace(context_, std::move(keep));
  if (stream_ == nullptr) return Release(nullptr);
  sink_ = SkippingSink::Get();
  retiring_->limit.After(kRetireMax, [self = shared_from_this()] { self->Fail("it took too long to retire"); });
  inbound_ = {};
  scratch_.Reset();
  if (receiving_ == Receiving::kAwaitScratch) {
    receiving_ = Receiving::kPayload;
    asio::post(context_, [self = shared_from_this()] { self->OnReadable(); });
  }
  if (!sending_) OnWritten();
}

void StreamLane::OnEnd() {
  ended_there_ = true;
  if (retires()) return ReleaseIfOver();
  asio::post(context_, [self = shared_from_this()] {
    if (!self->open() || self->retires()) return;
    LaneSink* const sink = std::exchange(self->sink_, SkippingSink::Get());
    sink->OnLaneClosed(self->label().link, "the other side has ended it");
  });
}

void StreamLane::ReleaseIfOver() {
  if (!ended_there_ || sending_) return;
  stream_->Detach();
  stream_->Unread(std::span(read_ahead_).subspan(begin_, available()));
  stream_->path().SetPace(0);
  Release(std::move(stream_));
}

// Later, for the caller may be anywhere in this object.
void StreamLane::Release(std::unique_ptr<Stream> stream) {
  sink_ = nullptr;
  Reset();
  retiring_->limit.Cancel();
  asio::post(context_, [keep = std::exchange(retiring_->keep, nullptr), stream = std::move(stream)]() mutable {
    keep(std::move(stream));
  });
}

}  // namespace ringway::net
