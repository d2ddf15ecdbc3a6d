// The master's state as JSON, for ringwayctl and the page. Pure.
//
//   {"master": {"term", "version", "uptime_s", "utc", "protocol": [min, max], "journal", "journal_path", "role",
//               "leader", "security", "contradictions", "ignored_messages", "left_out",
//               "currency": of prices, or null},
//    "daemons": [{"name", "site", "address", "version": its release or null, "connected", "draining", "peers",
//                 "memory_used", "memory_max"}],
//    "groups": [{"name", "epoch": "t.c", "world_size", "min_world", "collecting", "prepared": epoch or null, "hung_ms",
//                "slow_host": {"name", "ratio"} or null, "ring": [names], "cost_hour", "cost_operation",
//                "peers": [{"peer_id", "name", "site", "address", "daemon", "rank", "state", "why", "online",
//                           all of proto/peer_counts.h,
//                           "live": {"ops_per_s", "op_ms", "sent_mbit",
//                                    "wait": {"what", "age_ms", "on": [names], "reason"}}}],
//                "paths": {"ranks": [names],
//                          "delay_ms", "rate_mbit", "sent_mbit", "resent_part", "age_s": [[by from][by to]]},
//                "history": [{"age_s", "ops_per_s", "op_ms", "world"}],
//                "traffic": as below}],
//    "traffic": {"cost_hour", "pairs": [{"from", "to", "bytes", "cost"}], "rest": {"bytes", "cost"}},
//    "events": [{"number", "age_ms", "event", "group", "who", "text"}]}
//
// "live" is null where the daemon is older or has not said so yet, its "wait" while nothing has waited for a second.
// "paths", "history" and a group's "traffic" where they are asked for: delays are half the round trip, rates and their
// ages as the sender has measured them, what it sends, and which part of that its kernel has sent again, is of the last
// seconds; null is unknown. Names are "peer N" where a peer has none. "traffic" is what this process has heard of, by
// the sites of sender and receiver ("rest": pairs without a place); costs are of the last hour, and null without
// prices, or operations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "master/coordination/coordinator.h"
#include "proto/identity.h"

namespace ringway {

// Facts about the process that the coordinator does not know.
struct ProcessFacts {
  Duration uptime{};
  std::string journal;            // "ok", "none", or why it cannot be written
  std::string journal_path = {};  // empty: none
  bool leads = true;              // else it stands by,
  std::string leader = {};        // and this one leads, HOST:PORT; empty: none is known
  std::string version = {};       // of the program
  std::string utc = {};           // its time of day, for operators to compare with theirs
  SecurityFacts security = {};
};

// What a report is to have.
struct StatusQuery {
  std::string group = {};                          // this group alone; empty: all
  bool paths = false;                              // and the groups' histories
  std::optional<std::uint64_t> events_after = {};  // events above this number, the oldest first; 0: the newest
  bool only_events = false;                        // neither daemons nor groups
  friend bool operator==(const StatusQuery&, const StatusQuery&) = default;
};
StatusQuery QueryOf(const control::StatusRequest& request);

// Events in one report, and their bytes: who wants more asks for the next ones.
inline constexpr std::size_t kEventsMax = 256;
inline constexpr std::size_t kEventsBytesMax = 512 << 10;

// A report written in slices, so that a long one does not block the event loop; groups and daemons may change between
// two slices. At most `bytes_max` (at least 4 KiB) long: further items are only counted, in left_out.
class StatusReport {
 public:
  explicit StatusReport(std::size_t bytes_max, StatusQuery query = {});
  const StatusQuery& query() const { return query_; }

  // Adds one group or a few daemons; returns false when nothing is left.
  bool Step(const Coordinator& coordinator);
  // REQUIRES: Step has returned false.
  std::string Finish(const Coordinator& coordinator, const ProcessFacts& facts) const;

 private:
  void Add(std::string& list, const std::string& item);
  std::string Events(const Coordinator& coordinator) const;
  std::string TrafficOfAll(const Coordinator& coordinator) const;

  StatusQuery query_;
  std::size_t bytes_left_;
  std::size_t left_out_ = 0;
  std::string groups_, daemons_;  // items, with commas between
  std::string last_group_;        // the last one added; "": none, for no group has this name
  bool groups_done_ = false;
  DaemonId last_daemon_;  // likewise; 0: none
};

// Returns all slices at once.
std::string StatusJson(const Coordinator& coordinator, const ProcessFacts& facts, std::size_t bytes_max);

}  // namespace ringway
