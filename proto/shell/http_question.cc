#include "proto/shell/http_question.h"

#include <asio/post.hpp>
#include <utility>

namespace ringway::shell {

HttpQuestion::HttpQuestion(std::shared_ptr<asio::io_context> loop, Duration patience, Ask ask, OnAnswer on_answer)
    : loop_(std::move(loop)),
      patience_(patience),
      ask_(std::move(ask)),
      on_answer_(std::move(on_answer)),
      timer_(*loop_) {}

void HttpQuestion::Wait(HttpConnectionId id) {
  waiting_.insert(id);
  if (waiting_.size() == 1) {
    timer_.After(patience_, [this] {
      Tell(Status(Code::kTimeout, "the program did not answer in time: is it stopped or overloaded?"));
    });
  }
  if (!open_.expired()) return;
  const auto token = std::make_shared<char>();
  open_ = token;
  ask_([loop = loop_, weak = weak_from_this(), token](Result<std::string> answer) {
    asio::post(*loop, [weak, answer = std::move(answer)] {
      if (const auto self = weak.lock()) self->OnAnswered(answer);
    });
  });
}

void HttpQuestion::OnAnswered(const Result<std::string>& answer) {
  open_.reset();
  Tell(answer);
}

void HttpQuestion::Tell(const Result<std::string>& answer) {
  timer_.Cancel();
  const std::set<HttpConnectionId> to = std::exchange(waiting_, {});
  on_answer_(to, answer);
}

}  // namespace ringway::shell
