// A program's status (the JSON that `ringwayctl --json status` prints) as Prometheus' text format. Pure.
//
// Every number of the status that changes is there, by the names of proto/peer_counts.h with "ringway_" before. Labels
// are groups (kMetricGroupsMax, beyond it ringway_groups_left_out counts) and ranks, never names of peers: each join
// makes a new one.
#pragma once

#include <cstddef>
#include <string>

#include "proto/result.h"

namespace ringway::shell {

inline constexpr std::size_t kMetricGroupsMax = 64;

// kProtocol if it is no status.
Result<std::string> MetricsOf(const std::string& status_json);

// Returns Ok if the program can do its work: a daemon has a master, a master can write its journal. Otherwise returns
// kMasterUnreachable or kIo with the reason.
Status ReadinessOf(const std::string& status_json);

}  // namespace ringway::shell
