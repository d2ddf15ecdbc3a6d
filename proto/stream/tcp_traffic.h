// What the kernel has counted on a TCP connection.
#pragma once

#include "proto/lane_traffic.h"

namespace ringway::net {

// All zero for what is no TCP connection. One system call.
LaneTraffic TrafficOf(int fd);

}  // namespace ringway::net
