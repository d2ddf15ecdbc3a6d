#include "daemon/path_sampling.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "daemon/net/address.h"
#include "proto/segment_header.h"

namespace ringway::daemon {

namespace {

bool TakesEverySize(const std::shared_ptr<net::Lane>& lane) {
  return lane != nullptr && lane->send_payload_bytes_max() == kPayloadBytesMax;
}

constexpr double kNewest = 0.2;  // of what is smoothed

void TakeShares(std::vector<std::uint64_t> delivered_bytes, LaneShares& shares) {
  const auto before = std::exchange(shares.delivered_bytes, std::move(delivered_bytes));
  const auto& now = shares.delivered_bytes;
  if (before.size() != now.size()) return shares.part.clear();
  std::vector<double> moved(now.size());
  for (std::size_t i = 0; i < now.size(); ++i) {
    if (now[i] > before[i]) moved[i] = static_cast<double>(now[i] - before[i]);
  }
  const double total = std::accumulate(moved.begin(), moved.end(), 0.0);
  if (total <= 0) return;
  const bool first = shares.part.empty();
  shares.part.resize(now.size());
  for (std::size_t i = 0; i < now.size(); ++i) {
    shares.part[i] += (first ? 1 : kNewest) * (moved[i] / total - shares.part[i]);
  }
}

}  // namespace

bool IsOneHost(int fd) {
  const auto local = net::LocalAddress(fd);
  return local.ok() && net::IsLoopback(local.value());
}

bool IsBacklogged(const Lanes& lanes) {
  const auto is_full = [&](const auto& lane) { return !TakesEverySize(lane) || !lane->idle(); };
  return std::any_of(lanes.begin(), lanes.end(), TakesEverySize) && std::all_of(lanes.begin(), lanes.end(), is_full);
}

core::PathSample SampleOf(PeerId other, const Lanes& lanes, bool backlogged, LaneShares& shares) {
  core::PathSample sample;
  sample.other = other;
  sample.backlogged = backlogged;
  std::int64_t busy = 0;
  std::vector<std::uint64_t> delivered_bytes(lanes.size());
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    if (lanes[i] == nullptr) continue;
    const net::TcpTraffic traffic = lanes[i]->traffic();
    delivered_bytes[i] = traffic.delivered_bytes;
    ++sample.lanes;
    sample.delivered_bytes += traffic.delivered_bytes;
    sample.resent_bytes += traffic.resent_bytes;
    sample.receiver_limited += traffic.receiver_limited;
    if (!lanes[i]->idle()) {
      ++busy;
      sample.queueing += traffic.queueing;
    }
    const bool shorter = sample.round_trip == Duration() || traffic.round_trip < sample.round_trip;
    if (traffic.round_trip != Duration() && shorter) sample.round_trip = traffic.round_trip;
  }
  if (busy > 0) sample.queueing /= busy;
  TakeShares(std::move(delivered_bytes), shares);
  return sample;
}

// A lane for small segments only comes on top: it is idle while large ones travel.
void PaceLanes(const Lanes& lanes, const LaneShares& shares, double bytes_per_second) {
  const auto sharers = std::count_if(lanes.begin(), lanes.end(), TakesEverySize);
  if (sharers == 0) return;
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    const double carried = i < shares.part.size() ? shares.part[i] : 0;
    if (lanes[i] != nullptr) lanes[i]->Pace(bytes_per_second * std::max(1.0 / static_cast<double>(sharers), carried));
  }
}

}  // namespace ringway::daemon
