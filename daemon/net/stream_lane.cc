#include "daemon/net/stream_lane.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <asio/post.hpp>
#include <cerrno>
#include <cstring>
#include <utility>

#include "proto/check.h"
#include "proto/hash.h"
#include "proto/stream/address.h"
#include "proto/stream/framed_socket.h"

#if defined(__SANITIZE_THREAD__)
extern "C" void AnnotateIgnoreReadsBegin(const char* file, int line);
extern "C" void AnnotateIgnoreReadsEnd(const char* file, int line);
#endif

namespace ringway::net {
namespace {

// A connection becomes a lane with what was read beyond its handshake.
static_assert(FramedSocket::kReadBytes <= Lane::kReadAheadBytes);

// The owner may write to a payload's memory before its thread has heard that the kernel has read it: what is written
// there is an answer to the payload (a sum that it went into), so it is over, or the attempt has been given up, so
// nobody will look at what is read. ThreadSanitizer does not know of either.
ssize_t SendToKernel(int fd, const msghdr& message) {
#if defined(__SANITIZE_THREAD__)
  AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
#endif
  const ssize_t sent = ::sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
#if defined(__SANITIZE_THREAD__)
  AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
#endif
  return sent;
}

}  // namespace

StreamLane::StreamLane(asio::io_context& context, ScratchPool& pool, LaneLabel label,
                       std::uint32_t send_payload_bytes_max)
    : Lane(label, send_payload_bytes_max), context_(context), socket_(context), pool_(pool) {}

StreamLane::~StreamLane() = default;

void StreamLane::Start(UniqueFd fd, std::span<const std::byte> already_read, LaneSink* sink) {
  RINGWAY_CHECK(sink_ == nullptr && sink != nullptr);
  sink_ = sink;
  asio::error_code error;
  socket_.assign(fd.get(), error);
  if (error) return Fail("cannot watch the connection: " + error.message());
  (void)fd.Release();
  if (already_read.size() > read_ahead_.size()) return Fail("too much came before the link stood");
  std::copy(already_read.begin(), already_read.end(), read_ahead_.begin());
  end_ = already_read.size();
  asio::post(context_, [self = shared_from_this()] { self->ReadTurn(); });
}

void StreamLane::Close() {
  sink_ = nullptr;
  Reset();
}

void StreamLane::Reset() {
  asio::error_code ignored;
  socket_.close(ignored);
  inbound_.keep.reset();
  outbound_.keep.reset();
  outbound_.payload = {};
  scratch_.Reset();
}

void StreamLane::Fail(const std::string& why) {
  if (!open()) return;
  failed_ = true;
  Reset();
  asio::post(context_, [self = shared_from_this(), why] {
    LaneSink* sink = std::exchange(self->sink_, nullptr);
    if (sink != nullptr) sink->OnLaneClosed(self->label(), why);
  });
}

// ---- receiving

void StreamLane::ArmRead() {
  socket_.async_wait(asio::posix::stream_descriptor::wait_read, [self = shared_from_this()](asio::error_code error) {
    if (!error) self->ReadTurn();
  });
}

void StreamLane::ReadTurn() {
  std::size_t turn_bytes = 0;
  while (open()) {
    if (!Consume()) return;
    if (turn_bytes >= kTurnBytes) {
      asio::post(context_, [self = shared_from_this()] { self->ReadTurn(); });
      return;
    }
    const ssize_t got = Receive();
    if (got < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) return ArmRead();
      return Fail(ErrnoStatus("cannot receive", errno).text());
    }
    if (got == 0) return Fail("the other side closed the lane");
    turn_bytes += static_cast<std::size_t>(got);
  }
}

// Uses up what is in the read-ahead buffer, up to a part of a header.
bool StreamLane::Consume() {
  for (;;) {
    if (receiving_ == Receiving::kHeader) {
      if (available() < kSegmentHeaderBytes) break;
      if (!TakeHeader()) return false;
    }
    if (receiving_ == Receiving::kAwaitScratch) return false;
    if (!TakePayload()) return false;
    if (receiving_ == Receiving::kPayload) break;  // more of it is still to come
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
  auto inbound = sink_->OnLaneHeader(label(), header.value());
  if (!open()) return false;
  if (!inbound.ok()) {
    Fail(inbound.status().text());
    return false;
  }
  inbound_ = std::move(inbound).value();
  payload_bytes_ = header.value().payload_bytes;
  payload_got_ = 0;
  receiving_ = Receiving::kPayload;
  if (inbound_.kind == LaneInbound::Kind::kScratch) {
    scratch_ = pool_.Acquire(payload_bytes_);
    if (!scratch_) {
      receiving_ = Receiving::kAwaitScratch;
      pool_.Wait(payload_bytes_, weak_from_this());
    }
  }
  return true;
}

void StreamLane::OnScratch(Scratch scratch) {
  if (!open() || receiving_ != Receiving::kAwaitScratch) return;  // `scratch` goes to the next in line
  scratch_ = std::move(scratch);
  receiving_ = Receiving::kPayload;
  asio::post(context_, [self = shared_from_this()] { self->ReadTurn(); });
}

// Where the next payload byte goes; null: nowhere. Asked before every write to the target.
std::byte* StreamLane::PayloadTarget() {
  if (inbound_.kind == LaneInbound::Kind::kDirect && !sink_->IsAttemptLive(inbound_.attempt)) {
    inbound_ = {};
  }
  switch (inbound_.kind) {
    case LaneInbound::Kind::kDirect:
      return inbound_.target + payload_got_;
    case LaneInbound::Kind::kScratch:
      return scratch_.data() + payload_got_;
    case LaneInbound::Kind::kDiscard:
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
  if (inbound_.kind == LaneInbound::Kind::kDiscard) return true;
  const bool direct = inbound_.kind == LaneInbound::Kind::kDirect;
  const std::byte* payload = direct ? inbound_.target : scratch_.data();
  const LaneInbound held = std::exchange(inbound_, {});
  // Held here: the sink may close this lane while the payload is in use.
  whole_ = std::move(scratch_);
  const std::span whole(payload, payload_bytes_);
  const Status status = sink_->OnLanePayload(label(), whole, Hash64(whole));
  whole_.Reset();
  if (!open()) return false;
  if (!status.ok()) {
    Fail(status.text());
    return false;
  }
  return true;
}

// One call into the kernel. In a payload: the rest of it, and what follows into the read-ahead. REQUIRES: begin_ == 0.
ssize_t StreamLane::Receive() {
  std::array<iovec, 2> parts{};
  std::size_t count = 0;
  std::size_t direct_bytes = 0;
  if (receiving_ == Receiving::kPayload) {
    direct_bytes = payload_bytes_ - payload_got_;
    std::byte* target = PayloadTarget();
    if (target == nullptr) {
      direct_bytes = std::min(direct_bytes, pool_.trash().size());
      target = pool_.trash().data();
    }
    parts[count++] = {.iov_base = target, .iov_len = direct_bytes};
    // Past a part of a discarded payload there is more of it, not a header.
    if (payload_got_ + direct_bytes == payload_bytes_) {
      parts[count++] = {.iov_base = read_ahead_.data(), .iov_len = read_ahead_.size()};
    }
  } else {
    parts[count++] = {.iov_base = read_ahead_.data() + end_, .iov_len = read_ahead_.size() - end_};
  }
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = count;
  const ssize_t got = ::recvmsg(socket_.native_handle(), &message, MSG_DONTWAIT);
  if (got <= 0) return got;
  const std::size_t direct_got = std::min(static_cast<std::size_t>(got), direct_bytes);
  payload_got_ += direct_got;
  end_ += static_cast<std::size_t>(got) - direct_got;
  return got;
}

// ---- sending

bool StreamLane::Send(LaneOutbound outbound) {
  RINGWAY_CHECK(idle());
  outbound_ = std::move(outbound);
  sent_bytes_ = 0;
  sending_ = true;
  return WriteOn();
}

bool StreamLane::WriteOn() {
  const std::size_t total = kSegmentHeaderBytes + outbound_.payload.size();
  while (sent_bytes_ < total) {
    std::array<iovec, 2> parts{};
    std::size_t count = 0;
    const std::size_t payload_sent = sent_bytes_ > kSegmentHeaderBytes ? sent_bytes_ - kSegmentHeaderBytes : 0;
    if (sent_bytes_ < kSegmentHeaderBytes) {
      parts[count++] = {.iov_base = outbound_.header.data() + sent_bytes_,
                        .iov_len = kSegmentHeaderBytes - sent_bytes_};
    }
    if (payload_sent < outbound_.payload.size()) {
      // sendmsg only reads; iovec has no const.
      parts[count++] = {.iov_base = const_cast<std::byte*>(outbound_.payload.data() + payload_sent),
                        .iov_len = outbound_.payload.size() - payload_sent};
    }
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = count;
    const ssize_t sent = SendToKernel(socket_.native_handle(), message);
    if (sent < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) {
        ArmWrite();
        return false;
      }
      Fail(ErrnoStatus("cannot send", errno).text());
      return false;
    }
    sent_bytes_ += static_cast<std::size_t>(sent);
  }
  outbound_.keep.reset();
  outbound_.payload = {};
  sending_ = false;
  return true;
}

void StreamLane::ArmWrite() {
  socket_.async_wait(asio::posix::stream_descriptor::wait_write, [self = shared_from_this()](asio::error_code error) {
    if (!error && self->open() && self->WriteOn()) self->sink_->OnLaneIdle();
  });
}

}  // namespace ringway::net
