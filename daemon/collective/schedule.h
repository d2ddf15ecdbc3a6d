// Schedules: who sends which chunk to whom, reduced or copied. Pure functions of world size, rank and ring order.
//
// Ring convention: positions 0 -> 1 -> ... -> K-1 -> 0 along the ring, the buffer cut into K chunks. Reduce-scatter
// step t = 0..K-2: position i sends chunk (i - t) mod K to its right neighbour and combines chunk (i - 1 - t) mod K
// that arrives from the left. Afterwards position i owns chunk (i + 1) mod K, finished. All-gather steps K-1 .. 2K-3:
// the owned chunks travel on, copied.
//
//   in-step t of the reduce-scatter      out-step t + 1 sends the same chunk: the arrival feeds the departure
//   in-step K-2                          finishes the owned chunk, which out-step K-1 starts to spread
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "proto/ids.h"
#include "proto/segment_header.h"

namespace ringway::collective {

inline constexpr std::uint32_t kNone = ~std::uint32_t{0};

// A chunk that arrives at this rank.
struct Arrival {
  std::uint16_t step = 0;  // of the sender's departure; with chunk it names the position
  std::uint16_t chunk = 0;
  Rank from;
  bool reduce = false;    // output = input (+) received; else output = received, which is finished
  bool finishes = false;  // this arrival completes the chunk at its owner
};

// A chunk that this rank sends.
struct Departure {
  std::uint16_t step = 0;
  std::uint16_t chunk = 0;
  Rank to;
  bool finished = false;        // carries a finished chunk, to be copied
  std::uint32_t after = kNone;  // index of the arrival that must have happened, segment by segment; kNone: at once
};

struct Schedule {
  ScheduleKind kind = ScheduleKind::kRing;
  std::uint32_t chunks = 1;
  std::vector<Arrival> arrivals;
  std::vector<Departure> departures;
};

// `ring`: ranks in ring order, a permutation of 0 .. K-1. K = 1 gives no transfers.
Schedule RingSchedule(std::span<const Rank> ring, Rank self);

// A holder of a finished result sends all of it to one rank that lacks it. One chunk.
Schedule FetchSchedule(Rank holder, Rank lacking, Rank self);

}  // namespace ringway::collective
