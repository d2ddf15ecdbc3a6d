// What a PeerRuntime tells about itself: to operators, and to the master with the heartbeats.
#include <algorithm>

#include "daemon/runtime/pair_lanes.h"
#include "daemon/runtime/peer_runtime.h"

namespace ringway::daemon {

std::vector<PairStatus> PeerRuntime::pairs() const {
  std::vector<PairStatus> out;
  for (const auto& [other, pair] : pairs_) {
    const std::vector<net::TcpTraffic> traffic = TrafficOf(pair.lanes);
    const flow::PathSample path = SampleOf(other, pair.lanes, traffic);
    PairStatus status{.other = other, .lanes_up = path.lanes, .round_trip = path.round_trip};
    ForEachUsed(pair.lanes, pair.large(), [&](std::size_t, const net::Lane&) { ++status.lanes_used; });
    for (const net::TcpTraffic& lane : traffic) status.retransmits += lane.retransmits;
    out.push_back(status);
  }
  return out;
}

std::size_t PeerRuntime::lanes_open() const {
  std::size_t open = 0;
  for (const auto& [other, pair] : pairs_) {
    open += static_cast<std::size_t>(
        std::count_if(pair.lanes.begin(), pair.lanes.end(), [](const auto& lane) { return lane != nullptr; }));
  }
  for (const auto& [serial, dial] : dials_) open += dial.lanes;
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
