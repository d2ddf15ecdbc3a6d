// Who is no member yet waits here for each of its packets: whatever such clients do, together they take a tenth of the
// data thread's time, one packet after the other in the order in which they came.
//
// Bounded by who queues: a session has one turn to wait for, the listening socket one. Threads: the data thread.
#pragma once

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <deque>
#include <functional>

namespace ringway::local {

class StrangerDesk {
 public:
  explicit StrangerDesk(asio::io_context& context) : rest_(context) {}

  // Calls `turn` later, from the event loop, after those of who was here before. It holds what it needs alive.
  void Queue(std::function<void()> turn);

 private:
  void Serve();

  asio::steady_timer rest_;
  std::deque<std::function<void()>> turns_;
  bool serving_ = false;
};

}  // namespace ringway::local
