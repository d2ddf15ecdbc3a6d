// One connection of the HTTP server: reads a request, writes its answer, and is over.
//
// Threads: the server's. Lifetime: shared, its waits hold it; after Close it calls nothing.
#pragma once

#include <asio/io_context.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "proto/clock.h"
#include "proto/shell/http_request.h"
#include "proto/stream/stream.h"
#include "proto/stream/timer.h"

namespace ringway::shell {

using HttpConnectionId = std::uint64_t;

struct HttpResponse {
  std::string head;
  std::string body;
};
using HttpResponsePtr = std::shared_ptr<const HttpResponse>;

// The stages of a connection: it waits for its request, or for the answer that this asks for.
enum class HttpStage : std::uint8_t { kRequest, kHealth, kStatus };
inline constexpr std::size_t kHttpStages = 3;

class HttpConnection final : public net::StreamSink, public std::enable_shared_from_this<HttpConnection> {
 public:
  static constexpr std::size_t kRequestBytesMax = 4096;

  // Outlives the connections.
  struct Sink {
    std::function<void(HttpConnectionId, const HttpRequest&)> on_request;
    std::function<void(HttpConnectionId)> on_end;  // answered, lost, too large or out of time: to be closed
  };

  HttpConnection(asio::io_context& loop, HttpConnectionId id, std::unique_ptr<net::Stream> stream, const Sink& sink);

  // `time`: for all of it.
  void Start(Duration time);
  void Answer(HttpResponsePtr response);
  void Close();

  const std::string& source() const { return source_; }
  const HttpRequest& request() const { return request_; }
  HttpStage stage() const { return stage_; }
  void Become(HttpStage stage) { stage_ = stage; }

  // ---- net::StreamSink
  void OnReadable() override;
  void OnWritable() override;

 private:
  asio::io_context& loop_;
  const HttpConnectionId id_;
  std::unique_ptr<net::Stream> stream_;  // null when closed
  const std::string source_;
  const Sink& sink_;
  net::Timer timer_;
  HttpStage stage_ = HttpStage::kRequest;
  std::string input_;
  HttpRequest request_;
  HttpResponsePtr response_;
  std::size_t written_ = 0;  // of head and body
};

}  // namespace ringway::shell
