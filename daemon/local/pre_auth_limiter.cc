#include "daemon/local/pre_auth_limiter.h"

#include <utility>

namespace ringway::local {
namespace {

constexpr int kRests = 9;  // pause, in multiples of the last turn

}  // namespace

void PreAuthLimiter::Queue(Whose user, std::function<void()> turn) {
  turns_[user].push_back(std::move(turn));
  if (!std::exchange(serving_, true)) Serve();
}

// Called after the pause that follows the previous turn.
void PreAuthLimiter::Serve() {
  rest_.At(rests_until_, [this] {
    const auto turn = TakeNext();
    const TimePoint begin = clock_.Now();
    turn();
    const TimePoint end = clock_.Now();
    rests_until_ = end + kRests * (end - begin);
    serving_ = !turns_.empty();
    if (serving_) Serve();
  });
}

std::function<void()> PreAuthLimiter::TakeNext() {
  auto next = turns_.upper_bound(last_);
  if (next == turns_.end()) next = turns_.begin();
  last_ = next->first;
  auto turn = std::move(next->second.front());
  next->second.pop_front();
  if (next->second.empty()) turns_.erase(next);
  return turn;
}

}  // namespace ringway::local
