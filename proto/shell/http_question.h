// A question of the HTTP server to its program, and who waits for its answer: all who ask while it is open share it.
// The next one is asked once the last is answered or lost, so a program that does not answer has one of each kind at
// most. Who asks again gets the last answer until kRests times the time that it took the program have passed, so
// clients that ask in a loop get a tenth of the program's loop.
//
// Threads: the server's; answers may come on any. Lifetime: shared, and answers outlive it.
#pragma once

#include <asio/io_context.hpp>
#include <functional>
#include <memory>
#include <set>
#include <string>

#include "proto/clock.h"
#include "proto/result.h"
#include "proto/shell/http_connection.h"
#include "proto/stream/timer.h"

namespace ringway::shell {

class HttpQuestion : public std::enable_shared_from_this<HttpQuestion> {
 public:
  // `took` is the time that the answer took the program's loop.
  using Answer = std::function<void(Result<std::string> answer, Duration took)>;
  using Ask = std::function<void(Answer)>;
  using OnAnswer = std::function<void(const std::set<HttpConnectionId>& to, const Result<std::string>& answer)>;

  static constexpr int kRests = 9;

  // All who wait get kTimeout when the first of them has waited for `patience`. Answers keep the loop, whoever else has
  // let it go.
  HttpQuestion(std::shared_ptr<asio::io_context> loop, Duration patience, Ask ask, OnAnswer on_answer);

  void Wait(HttpConnectionId id);
  void Forget(HttpConnectionId id) { waiting_.erase(id); }

 private:
  void OnAnswered(Result<std::string> answer, Duration took);
  void ReportAnswer(const Result<std::string>& answer);

  const std::shared_ptr<asio::io_context> loop_;
  const Duration patience_;
  const Ask ask_;
  const OnAnswer on_answer_;
  const net::Clock& clock_;
  net::Timer timer_;
  std::weak_ptr<char> open_;  // what the answer to come holds; expired: there will be none
  std::set<HttpConnectionId> waiting_;
  Result<std::string> last_;
  TimePoint last_until_{};
};

}  // namespace ringway::shell
