#include "daemon/path_sampling.h"

#include <algorithm>

#include "proto/segment_header.h"

namespace ringway::daemon {

namespace {

bool TakesEverySize(const std::shared_ptr<net::Lane>& lane) {
  return lane != nullptr && lane->send_payload_bytes_max() == kPayloadBytesMax;
}

}  // namespace

bool IsBacklogged(const Lanes& lanes) {
  const auto is_full = [&](const auto& lane) { return !TakesEverySize(lane) || !lane->idle(); };
  return std::any_of(lanes.begin(), lanes.end(), TakesEverySize) && std::all_of(lanes.begin(), lanes.end(), is_full);
}

// A lane for small segments only comes on top: it is idle while large ones travel.
void PaceLanes(const Lanes& lanes, double bytes_per_second) {
  const auto sharers = std::count_if(lanes.begin(), lanes.end(), TakesEverySize);
  if (sharers == 0) return;
  for (const auto& lane : lanes) {
    if (lane != nullptr) lane->Pace(bytes_per_second / static_cast<double>(sharers));
  }
}

core::PathSample SampleOf(PeerId other, const Lanes& lanes, bool backlogged) {
  core::PathSample sample;
  sample.other = other;
  sample.backlogged = backlogged;
  std::int64_t busy = 0;
  for (const auto& lane : lanes) {
    if (lane == nullptr) continue;
    const net::TcpTraffic traffic = lane->traffic();
    ++sample.lanes;
    sample.delivered_bytes += traffic.delivered_bytes;
    sample.resent_bytes += traffic.resent_bytes;
    sample.receiver_limited += traffic.receiver_limited;
    if (!lane->idle()) {
      ++busy;
      sample.queueing += traffic.queueing;
    }
    const bool shorter = sample.round_trip == Duration() || traffic.round_trip < sample.round_trip;
    if (traffic.round_trip != Duration() && shorter) sample.round_trip = traffic.round_trip;
  }
  if (busy > 0) sample.queueing /= busy;
  return sample;
}

}  // namespace ringway::daemon
