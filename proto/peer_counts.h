// The counters of a peer. Its status, its heartbeats to the master, their JSON and ringwayctl iterate this list. Append
// new counters at the end: on the wire a counter is its index.
//
// Monotonic for the lifetime of the peer.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

// M(name, in_tables, help): `in_tables`: a column in ringwayctl's table of a group.
#define RINGWAY_EACH_PEER_COUNT(M)                                                      \
  M(ops_done, true, "Operations that succeeded.")                                       \
  M(ops_retried, true, "Attempts that were given up.")                                  \
  M(ops_failed, true, "Operations that ended with an error.")                           \
  M(bytes_sent, true, "Sent on lanes, with headers and resent segments.")               \
  M(bytes_received, true, "Received on lanes, with headers.")                           \
  M(probe_bytes, false, "Sent to measure paths.")                                       \
  M(lanes_lost, false, "Lanes that broke.")                                             \
  M(controls_lost, false, "Control links that broke and were dialled again.")           \
  M(segments_resent, false, "Sent again because a lane was lost.")                      \
  M(ops_stuck, false, "Found by the watchdog: faults of this program.")                 \
  M(segments_aged, false, "Sent before more urgent ones, so that no priority starves.") \
  M(inputs_late, true, "Inputs that an operation with a quorum did not wait for.")

namespace ringway {

struct PeerCounts {
#define RINGWAY_DECLARE_COUNT(name, in_tables, help) std::uint64_t name = 0;
  RINGWAY_EACH_PEER_COUNT(RINGWAY_DECLARE_COUNT)
#undef RINGWAY_DECLARE_COUNT
};

struct PeerCountInfo {
  std::string_view name;
  bool in_tables;
  std::string_view help;
  std::uint64_t PeerCounts::*member;
};

inline constexpr std::array kPeerCounts = {
#define RINGWAY_NAME_COUNT(name, in_tables, help) PeerCountInfo{#name, in_tables, help, &PeerCounts::name},
    RINGWAY_EACH_PEER_COUNT(RINGWAY_NAME_COUNT)
#undef RINGWAY_NAME_COUNT
};

}  // namespace ringway
