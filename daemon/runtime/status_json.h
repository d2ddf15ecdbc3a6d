// The daemon's state as JSON, for `ringwayctl --socket`.
//
//   {"daemon": {"name", "site", "address", "pid", "master", "master_connected", "draining", "version",
//                "protocol": [min, max], "uplink_limit_mbit", "descriptors": {"limit", "lanes", "lanes_max",
//                "kept"},
//                "security": {"identity", "until", "days_left", "insecure"},
//                "memory": {"max", "regions", "results", "reorder", "early", "residuals"}, "advice": [sentences]},
//    "events": [{"number", "age_ms", "event", "group", "who", "text"}],
//    "groups": [{"name", "epoch": "t.c", "frozen", "rank", "world_size", "ring": [names], "self",
//                "members": [{"peer_id", "name", "site", "address", "rank"}],
//                "ops_open", all of proto/peer_counts.h, "durations": {each of proto/duration_counts.h:
//                {"counts": [by its bounds], "sum_us"}}, "waits",
//                "live": {"ops_per_s", "op_ms", "sent_mbit", "wait": {"what", "age_ms", "on": [names], "reason"}},
//                "pairs": [{"peer_id", "name", "lanes_up", "lanes_used", "retransmits", "round_trip_us",
//                           "rate_limit_mbit", "sent_mbit"}]}]}
//
// "groups" has one entry a peer of this daemon. rank is null before the first view. "pairs": those that have links,
// also to newcomers, whose name is empty; round_trip_us is null if unknown, rate_limit_mbit where nothing paces the
// pair. "live": daemon/runtime/live_rates.h; "wait" is null while nothing has waited for long. "events": the newest of
// this daemon, the oldest first.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "daemon/agreement/peer_values.h"
#include "daemon/runtime/descriptors.h"
#include "daemon/runtime/live_rates.h"
#include "daemon/runtime/peer_runtime.h"
#include "proto/event_log.h"
#include "proto/identity.h"

namespace ringway::daemon {

struct DaemonIdentity {
  std::string name;
  std::string site;
  std::string address;  // what other daemons dial
  std::string master;
  std::vector<std::string> advice;  // to the operator
};

struct PeerReport {
  agreement::PeerStatus status;
  std::vector<PairStatus> pairs;
  LiveRates live = {};
};

struct DaemonState {
  bool master_connected = false;
  const MemoryBudget* memory = nullptr;
  DescriptorPlan descriptors;
  std::size_t lanes = 0;                // open
  std::size_t kept = 0;                 // connections that are kept for later lanes
  std::uint64_t uplink_limit_mbit = 0;  // 0: none
  bool draining = false;                // an operator has taken it out of service
  SecurityFacts security = {};
  const EventLog* events = nullptr;
  TimePoint now{};
};

std::string ToJson(const DaemonIdentity& identity, const DaemonState& state, std::span<const PeerReport> peers);

}  // namespace ringway::daemon
