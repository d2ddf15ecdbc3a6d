// What a pair's lanes say of the path between its ends, for core::PathMeter.
//
// `lanes`: of one pair; null where one is down. Threads: that of the lanes.
#pragma once

#include <memory>
#include <vector>

#include "daemon/core/path_meter.h"
#include "daemon/net/lane.h"

namespace ringway::daemon {

using Lanes = std::vector<std::shared_ptr<net::Lane>>;

// Whether all lanes that take every size are busy writing, and there is one. If more waits, the path cannot take it.
bool IsBacklogged(const Lanes& lanes);

// Divides a rate between the lanes: 0 is none.
void PaceLanes(const Lanes& lanes, double bytes_per_second);

// One system call a lane.
core::PathSample SampleOf(PeerId other, const Lanes& lanes, bool backlogged);

}  // namespace ringway::daemon
