// What a program tells over HTTP, on a thread of its own:
//
//   GET /metrics   its counters (metrics.h)
//   GET /healthz   200 while it answers a question for its status within kPatience, else 503: its loops run
//   GET /readyz    200 when it can do its work, else 503 and why
//
// It asks as ringwayctl does, by a function that it is given: nothing of the program is touched from its thread. Plain,
// and for reading only. Two requests at a time, few that wait for them, each of at most 4 KiB and 5 s; clients that
// dribble can keep the others out, so it is for addresses of one's own. By cpp-httplib.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "proto/endpoint.h"
#include "proto/result.h"

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

  // Listens at HOST:PORT, says where in the log, and serves until this is destroyed. Once. kInvalidArgument if that is
  // no address, kIo if nothing can listen there.
  Status Start(const std::string& address);

 private:
  class Library;
  // Of the thread.
  void Serve(const Endpoint& where);

  const AskStatus ask_;
  std::unique_ptr<Library> server_;
  std::thread thread_;
  std::atomic<bool> ended_ = false;    // it has listened, or could not
  std::atomic<bool> is_over_ = false;  // of the thread
};

}  // namespace ringway::shell
