// The kernel's counters of a TCP connection.
#pragma once

#include "proto/lane_traffic.h"

namespace ringway::net {

// All zero if it is no TCP connection. One system call.
LaneTraffic TrafficOf(int fd);

}  // namespace ringway::net
