// What is known of one lane at one moment, as the shell reports it and flow control judges it.
//
// Values only. Pure.
#pragma once

#include <cstdint>

#include "proto/clock.h"

namespace ringway {

struct LaneState {
  bool up = false;
  bool every_size = false;  // it takes segments of every size; else small ones only
  bool idle = true;         // it can be given a segment
};

// What the kernel has counted on its connection. All zero where it is down.
struct LaneTraffic {
  std::uint64_t delivered_bytes = 0;  // that the other side has, what came out of order too
  Duration receiver_limited{};        // for so long its receive window was full
  std::uint64_t resent_bytes = 0;
  std::uint64_t retransmits = 0;  // segments sent again
  Duration round_trip{};          // the shortest seen; 0: none yet
  Duration queueing{};            // how much longer it takes now, smoothed
  double rate = 0;  // bytes per second that congestion control allows, or the connection's limit; 0 during recovery
  // What congestion control lets go in a round trip as it is now, and what it would on a fresh connection of Linux, but
  // no more than the connection is limited to; 0: not known.
  std::uint64_t window_bytes = 0;
  std::uint64_t fresh_window_bytes = 0;
  bool unsent = false;   // something has not left this host for the first time
  bool sending = false;  // something is not acknowledged, or unsent
  bool in_use = false;   // .. or came within a round trip
};

}  // namespace ringway
