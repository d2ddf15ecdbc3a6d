#include "daemon/local/stranger_desk.h"

#include <chrono>
#include <utility>

namespace ringway::local {
namespace {

constexpr int kRests = 9;  // pause, in multiples of the last turn

}  // namespace

void StrangerDesk::Queue(std::function<void()> turn) {
  turns_.push_back(std::move(turn));
  if (!std::exchange(serving_, true)) Serve();
}

// Called after the pause that follows the previous turn.
void StrangerDesk::Serve() {
  rest_.async_wait([this](asio::error_code error) {
    if (error) return;
    const auto turn = std::move(turns_.front());
    turns_.pop_front();
    const auto begin = std::chrono::steady_clock::now();
    turn();
    const auto end = std::chrono::steady_clock::now();
    rest_.expires_at(end + kRests * (end - begin));
    serving_ = !turns_.empty();
    if (serving_) Serve();
  });
}

}  // namespace ringway::local
