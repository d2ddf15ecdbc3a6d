#include "master/shell/server_session.h"

#include <asio/buffer.hpp>
#include <asio/write.hpp>
#include <utility>

namespace ringway {
namespace {

std::string SourceOf(const asio::ip::tcp::socket& socket) {
  std::error_code error;
  const asio::ip::tcp::endpoint remote = socket.remote_endpoint(error);
  if (error) return {};
  if (remote.address().is_v4()) return remote.address().to_string();
  constexpr std::size_t kNetworkBytes = 8;
  const auto bytes = remote.address().to_v6().to_bytes();
  return {reinterpret_cast<const char*>(bytes.data()), kNetworkBytes};
}

// Whether the other host ended the connection, or the network may have.
Contact ContactAfter(const std::error_code& error) {
  const bool ended =
      error == asio::error::eof || error == asio::error::connection_reset || error == asio::error::broken_pipe;
  return ended ? Contact::kClosed : Contact::kSilent;
}

}  // namespace

Server::Session::Session(Server& server, std::uint64_t id, asio::ip::tcp::socket socket)
    : server_(server),
      id_(id),
      socket_(std::move(socket)),
      timer_(socket_.get_executor()),
      source_(SourceOf(socket_)) {}

void Server::Session::Start() {
  std::error_code ignored;
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
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
  if (kind_ != Kind::kDaemon) ArmTimer();  // for taking it, and for asking again
  Write();
}

void Server::Session::CloseAfterWrite() {
  if (closed_) return;
  close_after_write_ = true;
  ArmTimer();  // it may never read
  if (!writes_) Close("closed by the coordinator");
}

void Server::Session::Close(const std::string& why, Contact how) {
  if (closed_) return;
  Abandon();
  server_.OnClosed(id_, how, why);
}

void Server::Session::Abandon() {
  closed_ = true;
  std::error_code ignored;
  socket_.close(ignored);
  timer_.cancel();
}

bool Server::Session::is_local() const {
  std::error_code error;
  const auto here = socket_.local_endpoint(error);
  const auto there = error ? here : socket_.remote_endpoint(error);
  return !error && here.address() == there.address();
}

void Server::Session::Become(Kind kind) {
  kind_ = kind;
  if (kind == Kind::kDaemon && !close_after_write_) timer_.cancel();
}

void Server::Session::ArmTimer() {
  timer_.expires_after(server_.options_.hello_timeout);
  timer_.async_wait([self = shared_from_this()](std::error_code error) {
    if (!error) self->Close("no hello within its time");
  });
}

void Server::Session::Read() {
  socket_.async_read_some(asio::buffer(input_), [self = shared_from_this()](std::error_code error, std::size_t n) {
    if (self->closed_) return;
    if (error) return self->Close(error.message(), ContactAfter(error));
    self->OnBytes(std::as_bytes(std::span(self->input_).first(n)));
  });
}

void Server::Session::OnBytes(std::span<const std::byte> bytes) {
  if (close_after_write_) return Read();  // whatever it still says
  if (const Status status = reader_.Feed(bytes); !status.ok()) {
    return status.code() == Code::kVersionMismatch ? RefuseVersion1(status) : Close(status.text());
  }
  OnFrames();
}

// Only who has not said hello may be of another release.
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
      if (too_large(reader_.Rest().size())) return Close("a frame too large for who has not said hello");
      break;
    }
    if (too_large(frame->size())) return Close("a frame too large for who has not said hello");
    control::ToMaster message;
    if (const Status status = ParseFrame(*frame, message); !status.ok()) return Close(status.text());
    asked_ = message.has_status() || message.has_plan() || message.has_evict();
    if (asked_ && kind_ != Kind::kDaemon) ArmTimer();
    server_.OnFrame(id_, message);
    if (closed_) return;
  }
  if (!asked_) Read();
}

void Server::Session::Write() {
  if (writes_) return;
  const auto written = [self = shared_from_this()](std::error_code error, std::size_t) {
    if (self->closed_) return;
    if (error) return self->Close(error.message(), ContactAfter(error));
    self->writes_ = false;
    self->OnWritten();
  };
  if (!queue_.empty()) {
    writing_.swap(queue_);
    writes_ = true;
    asio::async_write(socket_, asio::buffer(writing_), written);
  } else if (answer_) {
    writes_ = true;
    asio::async_write(socket_, asio::buffer(*answer_), written);
  }
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
