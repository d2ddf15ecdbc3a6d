// The HTTP endpoints of a program, served by a thread of their own:
//
//   GET /metrics   its counters (metrics.h)
//   GET /healthz   200 while its loops run, else 503
//   GET /readyz    200 while it can do its work, else 503 and why
//   GET /...       files of the program, where it has any (HttpPages)
//   GET /live.json what these show, where the program answers that
//
// It asks the program within the process: neither the network nor a certificate is between the two. A question without
// an answer for `patience` is a 503. Plain, and for reading only.
//
// Anybody who reaches the port may connect, so connections are bounded and cheap:
//
//   that have sent no whole request yet      kConnectionsMax
//   that wait for /healthz                   kConnectionsMax; one round of the program's loops answers all of them
//   that wait for the others, or read them   kConnectionsMax
//   one more than that                       closes the oldest of the host that has the most (BoundedConnectionSet)
//   a connection                             one request, of 4 KiB and `request_time` in all
//   questions to the program                 one of each kind at a time; all who ask meanwhile share its answer, and
//                                            who asks within 9 times the time that it took the program gets it again
//
// Hence slow clients delay nobody, and a flood from one host keeps no other host out.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "proto/clock.h"
#include "proto/result.h"

namespace ringway::shell {

// Each asks a question of the program. Called on the server's thread; posts to the program's loops and returns. The
// answer may come on any thread, or never, as where a queue is full: then all copies of it are destroyed.
struct HttpQuestions {
  // The duration is the time that the answer took the program's loop; 0 where the program itself limits that.
  using Answer = std::function<void(Result<std::string>, Duration)>;
  std::function<void(Answer)> health;  // answers once all loops have run; the text is not used
  std::function<void(Answer)> status;  // answers with the status as JSON
  std::function<void(Answer)> live{};  // answers with the JSON of /live.json; none: there is no such page
};

// A file that is part of the program. All of it outlives the server.
struct HttpPage {
  std::string_view path;
  std::string_view content_type;
  std::string_view body;
};
using HttpPages = std::vector<HttpPage>;

struct HttpLimits {
  Duration request_time = std::chrono::seconds(5);
  Duration patience = std::chrono::seconds(2);
};

class HttpServer {
 public:
  static constexpr std::size_t kConnectionsMax = 64;

  // The objects that `questions` use must outlive the server; answers may come later.
  explicit HttpServer(HttpQuestions questions, const HttpLimits& limits = {}, const HttpPages& pages = {});
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // Listens at HOST:PORT, says where in the log, and serves until this is destroyed. Returns the address that it has,
  // as text. Once. Errors: kInvalidArgument if that is no address, kIo if nothing can listen there.
  Result<std::string> Start(const std::string& address);

 private:
  class Desk;

  std::unique_ptr<Desk> desk_;  // of the thread, once that runs
  std::thread thread_;
};

}  // namespace ringway::shell
