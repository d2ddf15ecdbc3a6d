// The newest events of this daemon's log, for `ringwayctl events`. A value; threads: one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>

#include "proto/clock.h"

namespace ringway::daemon {

struct RecentEvent {
  std::uint64_t number = 0;  // from 2 on, as the master's
  TimePoint at{};
  std::string kind;
  std::string group = {};  // empty: of the daemon as a whole
  std::string who = {};    // a peer's name
  std::string text = {};
};

class RecentEvents {
 public:
  static constexpr std::size_t kMax = 128;
  static constexpr std::size_t kTextBytesMax = 512;

  void Add(RecentEvent event) {
    event.number = ++last_;
    event.text.resize(std::min(event.text.size(), kTextBytesMax));
    if (events_.size() == kMax) events_.pop_front();
    events_.push_back(std::move(event));
  }
  // The oldest first.
  const std::deque<RecentEvent>& all() const { return events_; }

 private:
  std::uint64_t last_ = 1;
  std::deque<RecentEvent> events_;
};

}  // namespace ringway::daemon
