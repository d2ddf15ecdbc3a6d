// Rate limit for clients that are not members yet: their packets are handled one at a time, in at most a tenth of the
// data thread's time. Users are served round-robin, the listening socket counts as one, and each user's turns are in
// order of arrival. So a user with many sessions delays only its own.
//
// Bounded: one queued turn per session and one for the listening socket. Thread: the data thread.
#pragma once

#include <asio/io_context.hpp>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>

#include "proto/stream/timer.h"

namespace ringway::local {

class PreAuthLimiter {
 public:
  explicit PreAuthLimiter(asio::io_context& context) : clock_(net::Clock::Of(context)), rest_(context) {}

  // The user whose turn it is; nullopt: the listening socket.
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
