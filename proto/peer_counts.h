// The counters of a peer. Its status, its heartbeats to the master, their JSON and ringwayctl iterate this list. Append
// new counters at the end: on the wire a counter is its index.
//
// Monotonic for the lifetime of the peer.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

// M(name, in_tables): `in_tables`: a column in ringwayctl's table of a group.
#define RINGWAY_EACH_PEER_COUNT(M)                                            \
  M(ops_done, true)    /* operations that succeeded */                        \
  M(ops_retried, true) /* attempts that were given up */                      \
  M(ops_failed, true)  /* operations that ended with an error */              \
  M(bytes_sent, true)  /* on lanes, with headers and resent segments */       \
  M(bytes_received, true)                                                     \
  M(probe_bytes, false) /* sent to measure paths */                           \
  M(lanes_lost, false)                                                        \
  M(controls_lost, false)   /* control links that broke and were redialled */ \
  M(segments_resent, false) /* because a lane was lost */                     \
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
