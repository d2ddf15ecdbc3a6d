// `ringwayctl events`: what has happened, a line each, the oldest first; `--follow`: and what happens from now on.
//
// The master keeps an hour of it, a daemon the newest of what it has logged (master/coordination/timeline.h,
// proto/event_log.h).
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "client/ctl/watch/source.h"
#include "proto/result.h"

namespace ringway::ctl {

struct EventsOrder {
  std::string group;  // empty: all
  std::string since;  // an age, as 10m; empty: all that are kept
  bool follow = false;
};

// Adds the command into `order`, which outlives the parsing.
const CLI::App* AddEvents(CLI::App& app, EventsOrder* order);

// 90s, 10m, 2h, 1d; nothing if it is none, or more than a year.
std::optional<std::int64_t> ParseAgeMs(const std::string& text);

// Which events of successive statuses are new. Pure.
class EventReader {
 public:
  struct Event {
    std::uint64_t number = 0;
    std::int64_t age_ms = 0;
    std::string kind, group, who, text;
  };
  struct Batch {
    std::vector<Event> events;  // the oldest first
    std::uint64_t missed = 0;   // that were no longer kept
    bool restarted = false;     // another process answered: its events are new
    bool more = false;          // ask again at once

    // Whether the newest of them is less than this old.
    bool HasYoungerThan(std::int64_t age_ms) const { return !events.empty() && events.back().age_ms < age_ms; }
  };

  // What to ask a master for next.
  std::uint64_t after() const { return last_; }
  // kProtocol if the text is no status, or one without events, as that of an older release.
  Result<Batch> Take(const std::string& status_json);

 private:
  std::uint64_t last_ = 1;  // numbers are above
  std::string process_;     // whose they are
};

// "2026-11-29T22:31:07Z  dropped  job  c  its daemon ..."; JSON: an object. `time`: when it happened.
std::string EventLine(const EventReader::Event& event, const std::string& time, bool as_json);

// Prints them until it has those from before the call, with --follow for good: then a source that is away is asked
// again, and standard error says so once. Errors: also that there is no such group, neither now nor in an event.
Status RunEvents(const StatusSource& source, const EventsOrder& order, bool as_json);

}  // namespace ringway::ctl
