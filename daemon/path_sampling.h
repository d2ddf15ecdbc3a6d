// What a pair's lanes say of the path between its ends, and how fast they may be.
//
// `lanes`: of one pair; null where one is down. Threads: that of the lanes.
#pragma once

#include <memory>
#include <vector>

#include "daemon/core/lane_balance.h"
#include "daemon/core/path_meter.h"
#include "daemon/net/lane.h"

namespace ringway::daemon {

using Lanes = std::vector<std::shared_ptr<net::Lane>>;

// By lane; zero where one is down. One system call a lane.
std::vector<net::TcpTraffic> TrafficOf(const Lanes& lanes);

// Whether any lane is busy writing.
bool IsBusy(const Lanes& lanes);
// Whether all lanes that take every size are, and there is one. If more waits, the path cannot take it.
bool IsBacklogged(const Lanes& lanes);

core::PathSample SampleOf(PeerId other, const Lanes& lanes, const std::vector<net::TcpTraffic>& traffic);
std::vector<core::LaneSample> LaneSamplesOf(const Lanes& lanes, const std::vector<net::TcpTraffic>& traffic);

// Divides a rate between the lanes; 0: no limit. Each gets an equal part; one that carries more keeps what it has, so
// that those that are still slow take nothing from the whole. They grow, and then it has less.
void PaceLanes(const Lanes& lanes, const core::LaneBalance& balance, double bytes_per_second);

}  // namespace ringway::daemon
