// The status of a PeerRuntime, for operators, and for the master with the heartbeats.
#include "daemon/runtime/pair_transport.h"
#include "daemon/runtime/peer_runtime.h"

namespace ringway::daemon {

agreement::PeerStatus PeerRuntime::status() const {
  agreement::PeerStatus status = peer_.GetStatus();
  status.durations.operation = durations_;
  return status;
}

std::vector<PairStatus> PeerRuntime::pairs() {
  std::vector<PairStatus> out;
  for (auto& [other, pair] : pairs_) out.push_back(pair.status());
  return out;
}

std::size_t PeerRuntime::lanes_open() const {
  std::size_t open = dials_.lanes();
  for (const auto& [other, pair] : pairs_) open += pair.connections();
  return open;
}

control::PeerCounters PeerRuntime::counters() const {
  control::PeerCounters counters;
  counters.set_peer(options_.self.value);
  for (const PeerCountInfo& count : kPeerCounts) counters.add_counts(peer_.counts().*count.member);
  times_.WriteTo(counters);
  return counters;
}

}  // namespace ringway::daemon
