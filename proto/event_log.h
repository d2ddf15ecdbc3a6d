// The newest events of a process, for operators (`ringwayctl events`): at most a given number, no older than a given
// age, with texts of kTextBytesMax. Numbers grow by one from 2 on, so who asks again says after which, and who asks for
// all says after 1.
//
// Pure: the time is a parameter. A value; threads: one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>

#include "proto/clock.h"

namespace ringway {

struct Event {
  std::uint64_t number = 0;
  TimePoint at{};
  std::string kind;        // one word: view, prepared, adopted, revoked, recovery, join, left, dropped and others
  std::string group = {};  // empty: of the process as a whole
  std::string who = {};    // a peer's or a daemon's name
  std::string text = {};
};

class EventLog {
 public:
  static constexpr std::size_t kTextBytesMax = 512;

  EventLog(std::size_t count_max, Duration kept) : count_max_(count_max), kept_(kept) {}

  void Add(TimePoint at, Event event) {
    event.number = ++last_;
    event.at = at;
    for (std::string* text : {&event.group, &event.who, &event.text})
      text->resize(std::min(text->size(), kTextBytesMax));
    while (!events_.empty() && (events_.size() >= count_max_ || at - events_.front().at > kept_)) events_.pop_front();
    events_.push_back(std::move(event));
  }
  // The oldest first.
  const std::deque<Event>& all() const { return events_; }
  std::uint64_t last_number() const { return last_; }

 private:
  std::size_t count_max_;
  Duration kept_;
  std::uint64_t last_ = 1;
  std::deque<Event> events_;
};

}  // namespace ringway
