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

// Whether both ends of a connection are on this host, so that it tells nothing of a path.
bool IsOneHost(int fd);

// Whether all lanes that take every size are busy writing, and there is one. If more waits, the path cannot take it.
bool IsBacklogged(const Lanes& lanes);

// Which part of a pair's bytes each of its lanes carries, smoothed. All alike until they were sampled twice.
struct LaneShares {
  std::vector<std::uint64_t> delivered_bytes;
  std::vector<double> part;
};

// One system call a lane.
core::PathSample SampleOf(PeerId other, const Lanes& lanes, bool backlogged, LaneShares& shares);

// Divides a rate between the lanes; 0: no limit. Each gets an equal part; one that carries more keeps what it has, so
// that those that are still slow take nothing from the whole. They grow, and then it has less.
void PaceLanes(const Lanes& lanes, const LaneShares& shares, double bytes_per_second);

}  // namespace ringway::daemon
