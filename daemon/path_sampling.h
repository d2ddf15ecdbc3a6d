// What a pair's lanes say of the path between its ends, and how fast they may be.
//
// `lanes`: of one pair; null where one is down. Threads: that of the lanes.
#pragma once

#include <memory>
#include <vector>

#include "daemon/core/lane_balance.h"
#include "daemon/core/path_meter.h"
#include "daemon/net/lane.h"
#include "proto/segment_header.h"

namespace ringway::daemon {

using Lanes = std::vector<std::shared_ptr<net::Lane>>;

// By lane; zero where one is down. One system call a lane.
std::vector<net::TcpTraffic> TrafficOf(const Lanes& lanes);

inline bool TakesEverySize(const net::Lane& lane) { return lane.send_payload_bytes_max() == kPayloadBytesMax; }

// Calls `visit(index, lane)` for the lanes that are up and in use: the first `large` that take every size, and those
// for small segments.
template <typename Visit>
void ForEachUsed(const Lanes& lanes, std::size_t large, const Visit& visit) {
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    if (lanes[i] == nullptr) continue;
    if (TakesEverySize(*lanes[i]) && large-- == 0) return;
    visit(i, *lanes[i]);
  }
}

// Whether any lane is busy writing.
bool IsBusy(const Lanes& lanes);
// Whether all lanes in use that take every size are, and there is one. If more waits, the path cannot take it.
bool IsBacklogged(const Lanes& lanes, std::size_t large);

core::PathSample SampleOf(PeerId other, const Lanes& lanes, const std::vector<net::TcpTraffic>& traffic);
std::vector<core::LaneSample> LaneSamplesOf(const Lanes& lanes, const std::vector<net::TcpTraffic>& traffic);

// Divides a rate between the lanes in use; 0: no limit. Each gets an equal part; one that carries more keeps what it
// has, so that those that are still slow take nothing from the whole. They grow, and then it has less.
void PaceLanes(const Lanes& lanes, std::size_t large, const core::LaneBalance& balance, double bytes_per_second);

}  // namespace ringway::daemon
