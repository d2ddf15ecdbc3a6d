// Rate limit for clients that are not members yet: their packets are handled one at a time, in order of arrival, in at
// most a tenth of the data thread's time.
//
// Bounded: one queued turn for each session and one for the listening socket. Threads: the data thread.
#pragma once

#include <asio/io_context.hpp>
#include <deque>
#include <functional>

#include "proto/stream/timer.h"

namespace ringway::local {

class StrangerDesk {
 public:
  explicit StrangerDesk(asio::io_context& context) : clock_(net::Clock::Of(context)), rest_(context) {}

  // Calls `turn` later, from the event loop, in FIFO order. `turn` keeps alive what it needs.
  void Queue(std::function<void()> turn);

 private:
  void Serve();

  const net::Clock& clock_;
  net::Timer rest_;
  TimePoint rests_until_{};
  std::deque<std::function<void()>> turns_;
  bool serving_ = false;
};

}  // namespace ringway::local
