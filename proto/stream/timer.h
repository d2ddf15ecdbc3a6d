// The time of an event loop: its clock, and timers that run by it.
//
// A loop has one clock: the machine's, unless a test has installed another before its first use
// (tests/proto/stream/simulated_clock.h).
//
// Threads: the loop's. Lifetime: the clock is the loop's.
#pragma once

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <cstdint>
#include <memory>
#include <utility>

#include "proto/clock.h"

namespace ringway::net {

class Clock : public asio::execution_context::service {
 public:
  static inline asio::execution_context::id id;  // a loop's service is found by it: one, of this class or a derived one

  static Clock& Of(asio::io_context& loop) { return asio::use_service<Clock>(loop); }

  explicit Clock(asio::execution_context& loop) : service(loop) {}
  virtual TimePoint Now() const { return MonotonicNow(); }

  // ---- for Timer. Ends what waits for `timer`; what waits for it from now on does so until `due`.
  virtual void Arm(asio::steady_timer& timer, TimePoint due) { timer.expires_at(due); }
  virtual void Disarm(asio::steady_timer& timer) { timer.cancel(); }

 private:
  void shutdown() override {}
};

// Waits for one thing at a time. After the wait was cancelled or replaced, or the timer destroyed, the callback never
// runs, even if it was due already; the loop destroys it in a later turn. Waiting again does not allocate.
class Timer {
 public:
  explicit Timer(asio::io_context& loop) : clock_(Clock::Of(loop)), timer_(loop) {}
  ~Timer() { Cancel(); }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  // Calls `then` once, from the loop; at once if the time is over.
  template <typename Then>
  void At(TimePoint due, Then then) {
    clock_.Arm(timer_, due);
    timer_.async_wait([newest = newest_, serial = ++*newest_, then = std::move(then)](asio::error_code) mutable {
      if (serial == *newest) then();
    });
  }
  template <typename Then>
  void After(Duration time, Then then) {
    At(clock_.Now() + time, std::move(then));
  }
  void Cancel() {
    ++*newest_;
    clock_.Disarm(timer_);
  }

 private:
  Clock& clock_;
  asio::steady_timer timer_;
  std::shared_ptr<std::uint64_t> newest_ = std::make_shared<std::uint64_t>(0);  // the number of the newest wait
};

}  // namespace ringway::net
