#include "daemon/path_sampling.h"

#include <algorithm>

#include "daemon/net/address.h"
#include "proto/segment_header.h"

namespace ringway::daemon {

bool IsOneHost(int fd) {
  const auto local = net::LocalAddress(fd);
  return local.ok() && net::IsLoopback(local.value());
}

bool IsBacklogged(const Lanes& lanes) {
  const auto takes_every_size = [](const auto& lane) {
    return lane != nullptr && lane->send_payload_bytes_max() == kPayloadBytesMax;
  };
  const auto is_full = [&](const auto& lane) { return !takes_every_size(lane) || !lane->idle(); };
  return std::any_of(lanes.begin(), lanes.end(), takes_every_size) && std::all_of(lanes.begin(), lanes.end(), is_full);
}

core::PathSample SampleOf(PeerId other, const Lanes& lanes, bool backlogged) {
  core::PathSample sample;
  sample.other = other;
  sample.backlogged = backlogged;
  for (const auto& lane : lanes) {
    if (lane == nullptr) continue;
    const net::TcpTraffic traffic = lane->traffic();
    ++sample.lanes;
    sample.delivered_bytes += traffic.delivered_bytes;
    sample.receiver_limited += traffic.receiver_limited;
    const bool shorter = sample.round_trip == Duration() || traffic.round_trip < sample.round_trip;
    if (traffic.round_trip != Duration() && shorter) sample.round_trip = traffic.round_trip;
  }
  return sample;
}

}  // namespace ringway::daemon
