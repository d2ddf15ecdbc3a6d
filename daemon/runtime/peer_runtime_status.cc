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

void PeerRuntime::LookAtRates(TimePoint now) {
  if (!live_.IsDue(now)) return;
  LiveRates::Paths sent;
  for (auto& [other, pair] : pairs_) sent[other] = {.bytes = pair.bytes_sent(), .resent_bytes = pair.resent_bytes()};
  live_.Look(now, std::move(sent));
}

control::PeerCounters PeerRuntime::counters() const {
  control::PeerCounters counters;
  counters.set_peer(options_.self.value);
  for (const PeerCountInfo& count : kPeerCounts) counters.add_counts(peer_.counts().*count.member);
  times_.WriteTo(counters);
  live_.WriteTo(*counters.mutable_live());
  const agreement::Wait& wait = peer_.wait();
  if (wait.what.empty()) return counters;
  control::PeerWait& out = *counters.mutable_live()->mutable_wait();
  out.set_what(wait.what);
  out.set_age_ms(static_cast<std::uint32_t>(wait.age.count() / 1000));
  for (const PeerId on : wait.on) out.add_on(on.value);
  if (wait.on.empty()) out.set_reason(wait.reason);
  return counters;
}

}  // namespace ringway::daemon
