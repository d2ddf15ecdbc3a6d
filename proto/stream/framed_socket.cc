#include "proto/stream/framed_socket.h"

#include <asio/post.hpp>
#include <utility>

#include "proto/check.h"

namespace ringway::net {

FramedSocket::FramedSocket(asio::io_context& context, std::size_t queue_bytes_max)
    : context_(context), queue_bytes_max_(queue_bytes_max) {}

void FramedSocket::Start(std::unique_ptr<Stream> stream, FrameSink* sink) {
  RINGWAY_CHECK(sink_ == nullptr && sink != nullptr);
  sink_ = sink;
  stream_ = std::move(stream);
  if (const Status status = stream_->Attach(context_); !status.ok()) return Fail(status.text());
  // Read later, so that no sink is called from within Start.
  asio::post(context_, [self = shared_from_this()] { self->OnReadable(); });
}

void FramedSocket::Queue(const google::protobuf::MessageLite& message) {
  if (!open()) return;
  const std::size_t bytes = message.ByteSizeLong();
  if (bytes > kFrameBytesMax) return Fail("a message of " + std::to_string(bytes) + " bytes fits no frame");
  if (out_.size() - out_sent_ + bytes > queue_bytes_max_) {
    return Fail("the other side does not read: " + std::to_string(out_.size() - out_sent_) + " bytes wait to be sent");
  }
  AppendFrame(message, out_);
}

void FramedSocket::Flush() {
  if (!open() || writing_) return;
  while (out_sent_ < out_.size()) {
    const StreamIo io = stream_->Write(std::as_bytes(std::span(out_)).subspan(out_sent_));
    if (io.kind == StreamIo::Kind::kWouldBlock) return AwaitRoom();
    if (io.kind != StreamIo::Kind::kBytes) return Fail(io.why);
    out_sent_ += io.bytes;
  }
  out_.clear();
  out_sent_ = 0;
}

void FramedSocket::AwaitRoom() {
  // Bytes that are gone need no memory; moved here, where the kernel is full, not on every call.
  out_.erase(0, out_sent_);
  out_sent_ = 0;
  writing_ = true;
  stream_->AwaitWrite(shared_from_this());
}

void FramedSocket::OnWritable() {
  writing_ = false;
  Flush();
}

void FramedSocket::OnReadable() {
  std::array<std::byte, kReadBytes> buffer;
  std::size_t turn_bytes = 0;
  while (open()) {
    if (turn_bytes >= kTurnBytes) {
      asio::post(context_, [self = shared_from_this()] { self->OnReadable(); });
      return;
    }
    const StreamIo io = stream_->Read(buffer);
    if (io.kind == StreamIo::Kind::kWouldBlock) return stream_->AwaitRead(shared_from_this());
    if (io.kind != StreamIo::Kind::kBytes) return Fail(io.why);
    turn_bytes += io.bytes;
    if (!Deliver(std::span(buffer).first(io.bytes))) return;
  }
}

bool FramedSocket::Deliver(std::span<const std::byte> bytes) {
  Status header = reader_.Feed(bytes);
  while (header.ok() && open()) {
    const auto frame = reader_.Next();
    const std::size_t frame_bytes = frame.has_value() ? frame->size() : reader_.Rest().size();
    if (frame_bytes > sink_->FrameBytesMax() + kFrameHeaderBytes + kFrameChecksumBytes) {
      Fail("a frame exceeds its limit");
      return false;
    }
    if (!frame.has_value()) {
      header = reader_.CheckHeader();
      break;
    }
    if (const Status status = sink_->OnFrame(*frame); !status.ok()) {
      Fail(status.text());
      return false;
    }
  }
  if (!header.ok()) {
    const std::string answer = header.code() == Code::kVersionMismatch ? sink_->AnswerToVersion1() : "";
    if (!answer.empty()) (void)stream_->Write(std::as_bytes(std::span(answer)));
    Fail(header.text());
  }
  return open();
}

void FramedSocket::Fail(const std::string& why) {
  if (failed_ || sink_ == nullptr) return;
  failed_ = true;
  stream_ = nullptr;
  asio::post(context_, [self = shared_from_this(), why] {
    FrameSink* sink = std::exchange(self->sink_, nullptr);
    if (sink != nullptr) sink->OnClosed(why);
  });
}

void FramedSocket::Close() {
  sink_ = nullptr;
  stream_ = nullptr;
}

std::unique_ptr<Stream> FramedSocket::Release() {
  sink_ = nullptr;
  if (stream_ == nullptr) return nullptr;
  stream_->Detach();
  stream_->Unread(reader_.Rest());
  return std::move(stream_);
}

}  // namespace ringway::net
