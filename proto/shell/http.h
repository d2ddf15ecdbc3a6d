// What a program tells over HTTP, on a thread of its own:
//
//   GET /metrics   its counters (metrics.h)
//   GET /healthz   200 while it answers a question for its status within kPatience, else 503: its loops run
//   GET /readyz    200 when it can do its work, else 503 and why
//
// It asks as ringwayctl does, by a function that it is given: nothing of the program is touched from its thread. Plain,
// and for reading only. Few at a time, each within limits. By cpp-httplib.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "proto/endpoint.h"
#include "proto/result.h"

namespace httplib {
class Server;
}  // namespace httplib

namespace ringway::shell {

class HttpServer {
 public:
  static constexpr std::chrono::milliseconds kPatience{2000};

  // The status as JSON. Called on the server's threads, two at a time at most.
  using AskStatus = std::function<Result<std::string>()>;

  explicit HttpServer(AskStatus ask);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // Listens, and serves until this is destroyed. kIo if nothing can listen there. Once.
  Status Start(const Endpoint& where);
  // After Start: also where port 0 was asked for.
  int port() const { return port_; }

 private:
  const AskStatus ask_;
  std::unique_ptr<httplib::Server> server_;
  std::thread thread_;
  std::atomic<bool> ended_ = false;  // of the thread
  int port_ = 0;
};

}  // namespace ringway::shell
