// A pair's lanes together: which carry the next segment, and what they say of the path between the pair's ends.
//
// `lanes`: of one pair; null where one is down. Threads: that of the lanes.
#pragma once

#include <memory>
#include <vector>

#include "daemon/core/lane_balance.h"
#include "daemon/core/lane_wear.h"
#include "daemon/core/path_meter.h"
#include "daemon/net/lane.h"
#include "proto/lane_roles.h"
#include "proto/segment_header.h"

namespace ringway::daemon {

using Lanes = std::vector<std::shared_ptr<net::Lane>>;

// By lane; zero where one is down. One system call a lane.
std::vector<net::TcpTraffic> TrafficOf(const Lanes& lanes);

inline bool TakesEverySize(const net::Lane& lane) { return lane.send_payload_bytes_max() == kPayloadBytesMax; }

// Which lane of its kind is offered the next segment first.
struct Turns {
  std::size_t small = 0;
  std::size_t large = 0;
};

// Calls `visit(index, lane)` for the lanes that are up and in use: those for small segments, from the `first_small`th
// on, and the first `large` that take every size.
template <typename Visit>
void ForEachUsed(const Lanes& lanes, std::size_t large, const Visit& visit, std::size_t first_small = 0) {
  const std::size_t small = SmallLanes(lanes.size());
  for (std::size_t place = 0; place < lanes.size(); ++place) {
    const std::size_t i = place < small ? (first_small + place) % small : place;
    if (lanes[i] == nullptr) continue;
    if (place >= small && large-- == 0) return;
    visit(i, *lanes[i]);
  }
}

// Offers each idle lane that is in use one segment, in turn: give(lane) says whether it had one for it. Gives true if
// any lane got one.
template <typename GiveTo>
bool GiveRound(const Lanes& lanes, std::size_t large, Turns& turns, const GiveTo& give) {
  bool gave = false;
  const std::size_t first_large = turns.large;
  const auto offer = [&](std::size_t i, net::Lane& lane) {
    if (!lane.idle() || !give(lane)) return;
    gave = true;
    (TakesEverySize(lane) ? turns.large : turns.small) = i + 1;
  };
  ForEachUsed(
      lanes, large,
      [&](std::size_t i, net::Lane& lane) {
        if (!TakesEverySize(lane) || i >= first_large) offer(i, lane);
      },
      turns.small);
  ForEachUsed(lanes, large, [&](std::size_t i, net::Lane& lane) {
    if (TakesEverySize(lane) && i < first_large) offer(i, lane);
  });
  return gave;
}

// Whether any lane is busy writing.
bool IsBusy(const Lanes& lanes);
// Whether all lanes in use that take every size are, and there is one. If more waits, the path cannot take it.
bool IsBacklogged(const Lanes& lanes, std::size_t large);

core::PathSample SampleOf(PeerId other, const Lanes& lanes, const std::vector<net::TcpTraffic>& traffic);
std::vector<core::LaneSample> LaneSamplesOf(const Lanes& lanes, const std::vector<net::TcpTraffic>& traffic);
// Of the lanes for small segments; of those that do not leave the region nothing is known.
std::vector<core::LaneAllowance> AllowancesOf(const std::vector<net::TcpTraffic>& traffic);

// No lane sends bursts much faster than all together may send, which is what core::Pace sees to; 0: no limit.
void LimitBursts(const Lanes& lanes, double bytes_per_second);

}  // namespace ringway::daemon
