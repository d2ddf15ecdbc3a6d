#include "proto/stream/framed_socket.h"

#include <sys/socket.h>

#include <asio/post.hpp>
#include <cerrno>
#include <utility>

#include "proto/check.h"
#include "proto/stream/address.h"

namespace ringway::net {

FramedSocket::FramedSocket(asio::io_context& context, std::size_t queue_bytes_max)
    : context_(context), socket_(context), queue_bytes_max_(queue_bytes_max) {}

void FramedSocket::Start(UniqueFd fd, std::span<const std::byte> already_read, FrameSink* sink) {
  RINGWAY_CHECK(sink_ == nullptr && sink != nullptr);
  sink_ = sink;
  asio::error_code error;
  socket_.assign(fd.get(), error);
  if (error) return Fail("cannot watch the connection: " + error.message());
  (void)fd.Release();
  // Delivered later, so that no sink is called from within Start.
  asio::post(context_, [self = shared_from_this(),
                        rest = std::string(reinterpret_cast<const char*>(already_read.data()), already_read.size())] {
    if (!self->open()) return;
    if (rest.empty() || self->Deliver(std::as_bytes(std::span(rest)))) self->Read();
  });
}

void FramedSocket::Queue(const google::protobuf::MessageLite& message) {
  if (!open()) return;
  if (out_.size() - out_sent_ + message.ByteSizeLong() > queue_bytes_max_) {
    return Fail("the other side does not read: " + std::to_string(out_.size() - out_sent_) + " bytes wait to be sent");
  }
  AppendFrame(message, out_);
}

void FramedSocket::Flush() {
  if (!open() || writing_) return;
  while (out_sent_ < out_.size()) {
    const ssize_t sent =
        ::send(socket_.native_handle(), out_.data() + out_sent_, out_.size() - out_sent_, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) return ArmWrite();
      return Fail(ErrnoStatus("cannot send", errno).text());
    }
    out_sent_ += static_cast<std::size_t>(sent);
  }
  out_.clear();
  out_sent_ = 0;
}

void FramedSocket::ArmWrite() {
  // Bytes that are gone need no memory; moved here, where the kernel is full, not on every call.
  out_.erase(0, out_sent_);
  out_sent_ = 0;
  writing_ = true;
  socket_.async_wait(asio::posix::stream_descriptor::wait_write, [self = shared_from_this()](asio::error_code error) {
    self->writing_ = false;
    if (!error) self->Flush();
  });
}

void FramedSocket::ArmRead() {
  socket_.async_wait(asio::posix::stream_descriptor::wait_read, [self = shared_from_this()](asio::error_code error) {
    if (!error) self->Read();
  });
}

void FramedSocket::Read() {
  std::array<std::byte, kReadBytes> buffer;
  std::size_t turn_bytes = 0;
  while (open()) {
    if (turn_bytes >= kTurnBytes) {
      asio::post(context_, [self = shared_from_this()] { self->Read(); });
      return;
    }
    const ssize_t got = ::recv(socket_.native_handle(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) return ArmRead();
      return Fail(ErrnoStatus("cannot receive", errno).text());
    }
    if (got == 0) return Fail("the other side closed the connection");
    turn_bytes += static_cast<std::size_t>(got);
    if (!Deliver(std::span(buffer).first(static_cast<std::size_t>(got)))) return;
  }
}

bool FramedSocket::Deliver(std::span<const std::byte> bytes) {
  if (const Status status = reader_.Feed(bytes); !status.ok()) {
    const std::string answer = status.code() == Code::kVersionMismatch ? sink_->AnswerToVersion1() : "";
    (void)::send(socket_.native_handle(), answer.data(), answer.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    Fail(status.text());
    return false;
  }
  while (open()) {
    const auto frame = reader_.Next();
    if (!frame.has_value()) break;
    if (const Status status = sink_->OnFrame(*frame); !status.ok()) {
      Fail(status.text());
      return false;
    }
  }
  return open();
}

void FramedSocket::Fail(const std::string& why) {
  if (failed_ || sink_ == nullptr) return;
  failed_ = true;
  asio::error_code ignored;
  socket_.close(ignored);
  asio::post(context_, [self = shared_from_this(), why] {
    FrameSink* sink = std::exchange(self->sink_, nullptr);
    if (sink != nullptr) sink->OnClosed(why);
  });
}

void FramedSocket::Close() {
  sink_ = nullptr;
  asio::error_code ignored;
  socket_.close(ignored);
}

UniqueFd FramedSocket::Release(std::string& rest) {
  sink_ = nullptr;
  const auto left = reader_.Rest();
  rest.assign(reinterpret_cast<const char*>(left.data()), left.size());
  if (!socket_.is_open()) return UniqueFd();
  return UniqueFd(socket_.release());
}

}  // namespace ringway::net
