// The daemon's own view of itself as JSON, for `ringwayctl --socket`.
//
//   {"daemon": {"name", "site", "address", "pid", "master", "master_connected", "version"},
//    "groups": [{"name", "epoch": "t.c", "frozen", "rank", "world_size", "ring": [names], "self",
//                "members": [{"peer_id", "name", "site", "address", "rank"}],
//                "ops_open", "ops_done", "ops_retried", "ops_failed", "bytes_sent", "bytes_received"}]}
//
// "groups" has one entry a peer of this daemon. rank is null before the first view.
#pragma once

#include <span>
#include <string>

#include "daemon/core/peer.h"

namespace ringway::daemon {

struct DaemonIdentity {
  std::string name;
  std::string site;
  std::string address;  // what other daemons dial
  std::string master;
};

std::string ToJson(const DaemonIdentity& identity, bool master_connected, std::span<const core::PeerStatus> peers);

}  // namespace ringway::daemon
