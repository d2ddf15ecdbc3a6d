#include "daemon/runtime/pair_lanes.h"

#include <algorithm>

namespace ringway::daemon {
namespace {

// Bytes per second that a lane for small segments may send, however slow the path: it hardly ever has more, and an
// operation must not wait for its pace.
constexpr double kSmallPaceMin = 1e6;

// So many times the rate of all: a lone lane must not be what limits.
constexpr double kBurst = 1.5;

bool IsWriting(const std::shared_ptr<net::Lane>& lane) { return lane != nullptr && !lane->idle(); }

}  // namespace

std::vector<net::TcpTraffic> TrafficOf(const Lanes& lanes) {
  std::vector<net::TcpTraffic> out;
  for (const auto& lane : lanes) out.push_back(lane != nullptr ? lane->traffic() : net::TcpTraffic());
  return out;
}

std::size_t LargeLanesUp(const Lanes& lanes) {
  return static_cast<std::size_t>(std::count_if(
      lanes.begin(), lanes.end(), [](const auto& lane) { return lane != nullptr && TakesEverySize(*lane); }));
}

bool IsBusy(const Lanes& lanes) { return std::any_of(lanes.begin(), lanes.end(), IsWriting); }

bool IsBacklogged(const Lanes& lanes, std::size_t large) {
  std::size_t idle = 0;
  std::size_t busy = 0;
  ForEachUsed(lanes, large, [&](std::size_t, const net::Lane& lane) {
    if (TakesEverySize(lane)) ++(lane.idle() ? idle : busy);
  });
  return idle == 0 && busy > 0;
}

flow::PathSample SampleOf(PeerId other, const Lanes& lanes, const std::vector<net::TcpTraffic>& traffic) {
  flow::PathSample sample;
  sample.other = other;
  std::int64_t sending = 0;
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    if (lanes[i] == nullptr) continue;
    ++sample.lanes;
    sample.delivered_bytes += traffic[i].delivered_bytes;
    sample.resent_bytes += traffic[i].resent_bytes;
    sample.receiver_limited += traffic[i].receiver_limited;
    if (traffic[i].sending) {
      ++sending;
      sample.queueing += traffic[i].queueing;
    }
    const bool shorter = sample.round_trip == Duration() || traffic[i].round_trip < sample.round_trip;
    if (traffic[i].round_trip != Duration() && shorter) sample.round_trip = traffic[i].round_trip;
  }
  if (sending > 0) sample.queueing /= sending;
  return sample;
}

std::vector<flow::LaneSample> LaneSamplesOf(const Lanes& lanes, const std::vector<net::TcpTraffic>& traffic) {
  std::vector<flow::LaneSample> out;
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    out.push_back({.busy = IsWriting(lanes[i]) || traffic[i].unsent,
                   .delivered_bytes = traffic[i].delivered_bytes,
                   .receiver_limited = traffic[i].receiver_limited,
                   .round_trip = traffic[i].round_trip});
  }
  return out;
}

std::vector<flow::LaneAllowance> AllowancesOf(const std::vector<net::TcpTraffic>& traffic) {
  std::vector<flow::LaneAllowance> out;
  for (std::size_t i = 0; i < SmallLanes(traffic.size()); ++i) {
    const net::TcpTraffic& lane = traffic[i];
    flow::LaneAllowance& allowance = out.emplace_back();
    allowance.in_use = lane.in_use;
    if (lane.round_trip < kFarRoundTrip) continue;  // a few packets a round trip are fast enough
    allowance.now = lane.window_bytes;
    allowance.fresh = lane.fresh_window_bytes;
  }
  return out;
}

std::vector<flow::LaneHaste> HastesOf(const Lanes& lanes, std::size_t large,
                                      const std::vector<net::TcpTraffic>& traffic) {
  std::vector<flow::LaneHaste> out(lanes.size());
  ForEachUsed(lanes, large, [&](std::size_t i, const net::Lane& lane) {
    if (TakesEverySize(lane)) out[i] = {.rate = traffic[i].rate, .sending = traffic[i].sending};
  });
  return out;
}

void LimitBursts(const Lanes& lanes, double bytes_per_second) {
  for (const auto& lane : lanes) {
    if (lane == nullptr) continue;
    const double burst = kBurst * bytes_per_second;
    lane->Pace(burst > 0 && !TakesEverySize(*lane) ? std::max(burst, kSmallPaceMin) : burst);
  }
}

}  // namespace ringway::daemon
