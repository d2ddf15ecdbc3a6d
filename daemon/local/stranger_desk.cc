#include "daemon/local/stranger_desk.h"

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
  rest_.At(rests_until_, [this] {
    const auto turn = std::move(turns_.front());
    turns_.pop_front();
    const TimePoint begin = clock_.Now();
    turn();
    const TimePoint end = clock_.Now();
    rests_until_ = end + kRests * (end - begin);
    serving_ = !turns_.empty();
    if (serving_) Serve();
  });
}

}  // namespace ringway::local
