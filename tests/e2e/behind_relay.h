// A daemon that other daemons reach through a relay only, and so one whom a test can keep from reaching it.
#pragma once

#include <memory>

#include "tests/e2e/cluster.h"
#include "tests/e2e/relay.h"

namespace ringway::e2e {

inline std::unique_ptr<Relay> AddDaemonBehindRelay(Cluster& cluster) {
  auto relay = std::make_unique<Relay>();
  const std::size_t daemon = cluster.AddDaemon({"--advertise", relay->address()});
  relay->Aim(cluster.daemon(daemon).Logged("listening", "address"));
  return relay;
}

}  // namespace ringway::e2e
