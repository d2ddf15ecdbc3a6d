// Rate limit for clients that are not members yet: their packets are handled one at a time, in at most a tenth of the
// data thread's time. Users take turns, and the listening socket takes part like one; each one's are in order of
// arrival. So whoever has many sessions delays its own ones only.
//
// Bounded: one queued turn for each session and one for the listening socket. Threads: the data thread.
#pragma once

#include <asio/io_context.hpp>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>

#include "proto/stream/timer.h"

namespace ringway::local {

class StrangerDesk {
 public:
  explicit StrangerDesk(asio::io_context& context) : clock_(net::Clock::Of(context)), rest_(context) {}

  // Whose turn it is; nothing: the listening socket's.
  using Whose = std::optional<std::uint32_t>;

  // Calls `turn` later, from the event loop. `turn` keeps alive what it needs.
  void Queue(Whose user, std::function<void()> turn);

 private:
  void Serve();
  std::function<void()> TakeNext();

  const net::Clock& clock_;
  net::Timer rest_;
  TimePoint rests_until_{};
  std::map<Whose, std::deque<std::function<void()>>> turns_;
  Whose last_;
  bool serving_ = false;
};

}  // namespace ringway::local
