// What a PeerRuntime tells about itself: to operators, and to the master with the heartbeats.
#include "daemon/runtime/pair_transport.h"
#include "daemon/runtime/peer_runtime.h"

namespace ringway::daemon {

std::vector<PairStatus> PeerRuntime::pairs() const {
  std::vector<PairStatus> out;
  for (const auto& [other, pair] : pairs_) out.push_back(pair.status());
  return out;
}

std::size_t PeerRuntime::lanes_open() const {
  std::size_t open = dials_.lanes();
  for (const auto& [other, pair] : pairs_) open += pair.lanes_up();
  return open;
}

control::PeerCounters PeerRuntime::counters() const {
  const agreement::PeerCounts& counts = peer_.counts();
  control::PeerCounters counters;
  counters.set_peer(options_.self.value);
  counters.set_ops_done(counts.ops_done);
  counters.set_ops_retried(counts.ops_retried);
  counters.set_ops_failed(counts.ops_failed);
  counters.set_bytes_sent(counts.bytes_sent);
  counters.set_bytes_received(counts.bytes_received);
  times_.WriteTo(counters);
  return counters;
}

}  // namespace ringway::daemon
