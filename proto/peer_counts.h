// What a peer counts, in one list: its status, its heartbeats to the master, their JSON and ringwayctl go by it. A new
// counter is a new last line.
//
// They only grow, as long as the peer lives. On the wire a counter is its place in the list.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

// M(name, in_tables): a column of its own where ringwayctl shows all peers of a group.
#define RINGWAY_EACH_PEER_COUNT(M)                                                \
  M(ops_done, true)    /* operations that succeeded */                            \
  M(ops_retried, true) /* attempts that were given up */                          \
  M(ops_failed, true)  /* operations that ended with an error */                  \
  M(bytes_sent, true)  /* on lanes, headers and what was sent again included */   \
  M(bytes_received, true)                                                         \
  M(probe_bytes, false) /* sent to measure paths */                               \
  M(lanes_lost, false)                                                            \
  M(controls_lost, false)   /* control links that broke and were dialled again */ \
  M(segments_resent, false) /* because a lane was lost */                         \
  M(ops_stuck, false)       /* found by the watchdog: faults of this program */

namespace ringway {

struct PeerCounts {
#define RINGWAY_DECLARE_COUNT(name, in_tables) std::uint64_t name = 0;
  RINGWAY_EACH_PEER_COUNT(RINGWAY_DECLARE_COUNT)
#undef RINGWAY_DECLARE_COUNT
};

struct PeerCountInfo {
  std::string_view name;
  bool in_tables;
  std::uint64_t PeerCounts::*member;
};

inline constexpr std::array kPeerCounts = {
#define RINGWAY_NAME_COUNT(name, in_tables) PeerCountInfo{#name, in_tables, &PeerCounts::name},
    RINGWAY_EACH_PEER_COUNT(RINGWAY_NAME_COUNT)
#undef RINGWAY_NAME_COUNT
};

}  // namespace ringway
