#include "proto/shell/http_question.h"

#include <asio/post.hpp>
#include <utility>

namespace ringway::shell {

HttpQuestion::HttpQuestion(std::shared_ptr<asio::io_context> loop, Duration patience, Ask ask, OnAnswer on_answer)
    : loop_(std::move(loop)),
      patience_(patience),
      ask_(std::move(ask)),
      on_answer_(std::move(on_answer)),
      clock_(net::Clock::Of(*loop_)),
      timer_(*loop_),
      last_(Status(Code::kInternal, "there is no answer yet")) {}

void HttpQuestion::Wait(HttpConnectionId id) {
  if (clock_.Now() < last_until_) return on_answer_({id}, last_);
  waiting_.insert(id);
  if (waiting_.size() == 1) {
    timer_.After(patience_, [this] {
      ReportAnswer(Status(Code::kTimeout, "the program did not answer in time: is it stopped or overloaded?"));
    });
  }
  if (!open_.expired()) return;
  const auto token = std::make_shared<char>();
  open_ = token;
  ask_([loop = loop_, weak = weak_from_this(), token](Result<std::string> answer, Duration took) {
    asio::post(*loop, [weak, answer = std::move(answer), took]() mutable {
      if (const auto self = weak.lock()) self->OnAnswered(std::move(answer), took);
    });
  });
}

void HttpQuestion::OnAnswered(Result<std::string> answer, Duration took) {
  open_.reset();
  last_ = std::move(answer);
  last_until_ = clock_.Now() + kRests * took;
  ReportAnswer(last_);
}

void HttpQuestion::ReportAnswer(const Result<std::string>& answer) {
  timer_.Cancel();
  const std::set<HttpConnectionId> to = std::exchange(waiting_, {});
  on_answer_(to, answer);
}

}  // namespace ringway::shell
