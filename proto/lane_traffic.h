// State of one lane at one moment, as the shell reports it and flow control judges it.
//
// Values only. Pure.
#pragma once

#include <cstdint>

#include "proto/clock.h"

namespace ringway {

struct LaneState {
  bool up = false;
  bool every_size = false;  // it takes segments of every size; else small ones only
  bool idle = true;         // ready for a segment
};

// The kernel's counters of its connection (TCP_INFO). All zero while it is down.
struct LaneTraffic {
  std::uint64_t delivered_bytes = 0;  // acknowledged, or selectively acknowledged
  std::uint64_t earlier_bytes = 0;    // likewise, of earlier lanes of the same connection
  Duration receiver_limited{};        // time limited by the receive window
  std::uint64_t resent_bytes = 0;
  std::uint64_t retransmits = 0;  // packets retransmitted
  Duration round_trip{};          // minimum; 0: no sample
  Duration queueing{};            // smoothed round trip above the minimum
  Duration variation{};           // of the smoothed round trip
  double rate = 0;  // bytes per second that congestion control allows, or SO_MAX_PACING_RATE; 0 during loss recovery
  // Bytes that congestion control allows a round trip, now and on a fresh Linux connection, both at most what
  // SO_MAX_PACING_RATE allows; 0: not known.
  std::uint64_t window_bytes = 0;
  std::uint64_t fresh_window_bytes = 0;
  bool unsent = false;   // bytes in the socket were never sent
  bool sending = false;  // bytes are unsent or unacknowledged
  bool in_use = false;   // it is sending, or received data within a round trip
};

}  // namespace ringway
