#include "master/shell/server_session.h"

#include <array>
#include <asio/post.hpp>
#include <utility>

namespace ringway {
namespace {

constexpr std::size_t kReadBytes = 16 * 1024;  // a turn

// Returns kClosed if the other host closed the connection, kSilent if the network may have broken it.
Contact ContactAfter(const net::StreamIo& io) {
  return io.kind == net::StreamIo::Kind::kEnd ? Contact::kClosed : Contact::kSilent;
}

}  // namespace

Server::Session::Session(Server& server, std::uint64_t id, std::unique_ptr<net::Stream> stream)
    : server_(server), id_(id), stream_(std::move(stream)), peer_(stream_->peer()), timer_(server.io_) {}

void Server::Session::Start() {
  if (const Status status = stream_->Attach(server_.io_); !status.ok()) return Close(status.text());
  ArmTimer();
  Read();
}

void Server::Session::Send(const control::FromMaster& message) {
  if (closed_) return;
  if (message.ByteSizeLong() > kFrameBytesMax) return Close("a message for it exceeds the frame's maximum");
  AppendFrame(message, queue_);
  if (queue_.size() + writing_.size() > kQueueBytesMax) return Close("its output queue is full");
  Write();
}

void Server::Session::Answer(std::shared_ptr<const std::string> frame) {
  if (closed_) return;
  answer_ = std::move(frame);
  if (kind_ != Kind::kDaemon) ArmTimer();  // to read the answer, and to send the next request
  Write();
}

void Server::Session::CloseAfterWrite() {
  if (closed_) return;
  close_after_write_ = true;
  ArmTimer();  // in case it never reads
  if (!writes_) Close("closed by the coordinator");
}

void Server::Session::Close(const std::string& why, Contact how) {
  if (closed_) return;
  Abandon();
  server_.OnClosed(id_, how, why);
}

void Server::Session::Abandon() {
  closed_ = true;
  stream_ = nullptr;
  timer_.Cancel();
}

void Server::Session::Become(Kind kind) {
  kind_ = kind;
  if (kind == Kind::kDaemon && !close_after_write_) timer_.Cancel();
}

void Server::Session::ArmTimer() {
  timer_.After(server_.options_.hello_timeout,
               [self = shared_from_this()] { self->Close("no hello within its time"); });
}

void Server::Session::Read() {
  asio::post(server_.io_, [self = shared_from_this()] { self->OnReadable(); });
}

void Server::Session::OnReadable() {
  if (closed_) return;
  std::array<std::byte, kReadBytes> input;
  const net::StreamIo io = stream_->Read(input);
  if (io.kind == net::StreamIo::Kind::kWouldBlock) return stream_->AwaitRead(shared_from_this());
  if (io.kind != net::StreamIo::Kind::kBytes) return Close(io.why, ContactAfter(io));
  OnBytes(std::span(input).first(io.bytes));
}

void Server::Session::OnBytes(std::span<const std::byte> bytes) {
  if (close_after_write_) return Read();  // and discard what it still sends
  if (const Status status = reader_.Feed(bytes); !status.ok()) {
    return status.code() == Code::kVersionMismatch ? RefuseVersion1(status) : Close(status.text());
  }
  OnFrames();
}

// The other side can only be of another release before its hello.
void Server::Session::RefuseVersion1(const Status& why) {
  if (kind_ == Kind::kDaemon) return Close(why.text());
  control::FromMaster message;
  message.mutable_refusal()->set_code(static_cast<std::uint32_t>(why.code()));
  message.mutable_refusal()->set_text(why.text());
  AppendVersion1Frame(message, queue_);
  Write();
  CloseAfterWrite();
}

void Server::Session::OnFrames() {
  const auto too_large = [this](std::size_t bytes) { return kind_ != Kind::kDaemon && bytes > kStrangerFrameBytesMax; };
  while (!asked_ && !close_after_write_) {
    const auto frame = reader_.Next();
    if (!frame) {
      if (const Status status = reader_.CheckHeader(); !status.ok()) return Close(status.text());
      if (too_large(reader_.Rest().size())) return Close("a frame before hello is too large");
      break;
    }
    if (too_large(frame->size())) return Close("a frame before hello exceeds its limit");
    control::ToMaster message;
    if (const Status status = ParseFrame(*frame, message); !status.ok()) return Close(status.text());
    asked_ =
        message.has_status() || message.has_plan() || message.has_trace() || message.has_evict() || message.has_drain();
    if (asked_ && kind_ != Kind::kDaemon) ArmTimer();
    server_.OnFrame(id_, message);
    if (closed_) return;
  }
  if (!asked_) Read();
}

void Server::Session::Write() {
  if (writes_ || (queue_.empty() && !answer_)) return;
  writes_ = true;
  asio::post(server_.io_, [self = shared_from_this()] { self->OnWritable(); });
}

void Server::Session::OnWritable() {
  if (closed_) return;
  if (written_ == 0 && writing_.empty()) writing_.swap(queue_);
  const std::string& out = writing_.empty() ? *answer_ : writing_;
  while (written_ < out.size()) {
    const net::StreamIo io = stream_->Write(std::as_bytes(std::span(out)).subspan(written_));
    if (io.kind == net::StreamIo::Kind::kWouldBlock) return stream_->AwaitWrite(shared_from_this());
    if (io.kind != net::StreamIo::Kind::kBytes) return Close(io.why, ContactAfter(io));
    written_ += io.bytes;
  }
  written_ = 0;
  writes_ = false;
  OnWritten();
}

void Server::Session::OnWritten() {
  const bool answered = writing_.empty();
  writing_.clear();
  if (answered) {
    answer_.reset();
    asked_ = false;
  }
  Write();
  if (close_after_write_ && !writes_) return Close("closed by the coordinator");
  if (answered) OnFrames();
}

}  // namespace ringway
