#include "proto/shell/http_connection.h"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <utility>

namespace ringway::shell {

HttpConnection::HttpConnection(asio::io_context& loop, HttpConnectionId id, std::unique_ptr<net::Stream> stream,
                               const Sink& sink)
    : loop_(loop), id_(id), stream_(std::move(stream)), source_(stream_->peer().source), sink_(sink), timer_(loop) {}

void HttpConnection::Start(Duration time) {
  timer_.After(time, [this] { sink_.on_end(id_); });
  if (!stream_->Attach(loop_).ok()) return sink_.on_end(id_);
  OnReadable();
}

void HttpConnection::Answer(HttpResponsePtr response) {
  response_ = std::move(response);
  OnWritable();
}

void HttpConnection::Close() {
  timer_.Cancel();
  stream_ = nullptr;
}

void HttpConnection::OnReadable() {
  while (stream_ != nullptr) {
    std::array<std::byte, kRequestBytesMax> buffer;
    const std::size_t room = buffer.size() - input_.size();
    if (room == 0) return sink_.on_end(id_);
    const net::StreamIo io = stream_->Read(std::span(buffer).first(room));
    if (io.kind == net::StreamIo::Kind::kWouldBlock) return stream_->AwaitRead(shared_from_this());
    if (io.kind != net::StreamIo::Kind::kBytes) return sink_.on_end(id_);
    input_.append(reinterpret_cast<const char*>(buffer.data()), io.bytes);
    if (const auto request = ParseHttpRequest(input_)) {
      request_ = *request;
      return sink_.on_request(id_, request_);
    }
  }
}

void HttpConnection::OnWritable() {
  while (stream_ != nullptr) {
    const std::string_view head = response_->head;
    const std::string_view body = request_.only_head ? std::string_view() : std::string_view(response_->body);
    if (written_ == head.size() + body.size()) return sink_.on_end(id_);
    const std::size_t of_head = std::min(written_, head.size());
    const net::StreamIo io = stream_->Write(std::array{std::as_bytes(std::span(head.substr(of_head))),
                                                       std::as_bytes(std::span(body.substr(written_ - of_head)))});
    if (io.kind == net::StreamIo::Kind::kWouldBlock) return stream_->AwaitWrite(shared_from_this());
    if (io.kind != net::StreamIo::Kind::kBytes) return sink_.on_end(id_);
    written_ += io.bytes;
  }
}

}  // namespace ringway::shell
