// An event loop's time (proto/stream/timer.h) that passes only where a test says so: from one wait's end to the next.
//
//   asio::io_context loop{1};
//   auto& clock = net::SimulatedClock::Make(loop);  // before anything else that uses the loop
//   do loop.poll(); while (clock.Step(limit));
//
// Waits that end at one moment end in the order in which they began.
#pragma once

#include <algorithm>
#include <map>

#include "proto/stream/timer.h"

namespace ringway::net {

class SimulatedClock final : public Clock {
 public:
  static SimulatedClock& Make(asio::io_context& loop) { return asio::make_service<SimulatedClock>(loop); }

  explicit SimulatedClock(asio::execution_context& loop) : Clock(loop) {}
  TimePoint Now() const override { return now_; }

  // Goes on to the next end of a wait, of which the loop then hears. Returns false if there is none up to `limit`: it
  // is that time now.
  bool Step(TimePoint limit) {
    if (waits_.empty() || waits_.begin()->first > limit) {
      now_ = std::max(now_, limit);
      return false;
    }
    const auto [due, timer] = *waits_.begin();
    waits_.erase(waits_.begin());
    now_ = std::max(now_, due);
    timer->cancel();
    return true;
  }

  void Arm(asio::steady_timer& timer, TimePoint due) override {
    Forget(timer);
    timer.expires_at(asio::steady_timer::time_point::max());
    waits_.emplace(due, &timer);
  }
  void Disarm(asio::steady_timer& timer) override {
    Forget(timer);
    timer.cancel();
  }

 private:
  void Forget(asio::steady_timer& timer) {
    std::erase_if(waits_, [&](const auto& wait) { return wait.second == &timer; });
  }

  TimePoint now_{std::chrono::hours(1)};  // a time of 0 is none
  std::multimap<TimePoint, asio::steady_timer*> waits_;
};

}  // namespace ringway::net
