// A pair's lanes together: which carry the next segment, and what they say of the path between the pair's ends.
//
// `lanes`: of one pair; null where one is down. Threads: that of the lanes.
#pragma once

#include <memory>
#include <vector>

#include "daemon/flow/lane_health.h"
#include "daemon/flow/lane_renewal.h"
#include "daemon/flow/lane_stalls.h"
#include "daemon/flow/path_estimator.h"
#include "daemon/net/lane.h"
#include "proto/clock.h"
#include "proto/lane_roles.h"
#include "proto/segment_header.h"

namespace ringway::daemon {

using Lanes = std::vector<std::shared_ptr<net::Lane>>;

// By lane; zero where one is down. One system call a lane.
std::vector<net::TcpTraffic> TrafficOf(const Lanes& lanes);

inline bool TakesEverySize(const net::Lane& lane) { return lane.send_payload_bytes_max() == kPayloadBytesMax; }

// Which lane of its kind is offered the next segment first, and which kind.
struct Turns {
  std::size_t small = 0;
  std::size_t large = 0;
  bool large_first = false;
};

// Calls `visit(index, lane)` for the lanes that are up and in use: those for small segments, then the first `large`
// that take every size, or the other way round; of each kind from the one whose turn it is, and around.
template <typename Visit>
void ForEachUsed(const Lanes& lanes, std::size_t large, const Visit& visit, Turns turns = {}) {
  const auto around = [&](std::size_t begin, std::size_t end, std::size_t first) {
    if (first < begin || first >= end) first = begin;
    for (std::size_t i = first; i < end; ++i) {
      if (lanes[i] != nullptr) visit(i, *lanes[i]);
    }
    for (std::size_t i = begin; i < first; ++i) {
      if (lanes[i] != nullptr) visit(i, *lanes[i]);
    }
  };
  const std::size_t small = SmallLanes(lanes.size());
  std::size_t end = small;
  for (; end < lanes.size() && large > 0; ++end) large -= lanes[end] != nullptr;
  if (!turns.large_first) around(0, small, turns.small);
  around(small, end, turns.large);
  if (turns.large_first) around(0, small, turns.small);
}

// Offers each idle lane that is in use one segment, in turn: give(lane) says whether it had one for it; where not, it
// has none for other lanes of that kind, and they are not asked. Gives true if any lane got one.
template <typename GiveTo>
bool GiveRound(const Lanes& lanes, std::size_t large, Turns& turns, const GiveTo& give) {
  bool gave = false;
  bool has_none[2] = {false, false};
  const auto offer = [&](std::size_t i, net::Lane& lane) {
    const bool large_lane = TakesEverySize(lane);
    if (has_none[large_lane] || !lane.idle()) return;
    if (!give(lane)) {
      has_none[large_lane] = true;
      return;
    }
    gave = true;
    (large_lane ? turns.large : turns.small) = i + 1;
  };
  ForEachUsed(lanes, large, offer, turns);
  return gave;
}

// Lanes that are up and take every size.
std::size_t LargeLanesUp(const Lanes& lanes);

// Whether any lane is busy writing.
bool IsBusy(const Lanes& lanes);
// Whether all lanes in use that take every size are, and there is one. If more waits, the path cannot take it.
bool IsBacklogged(const Lanes& lanes, std::size_t large);

flow::PathSample SampleOf(PeerId other, const Lanes& lanes, const std::vector<net::TcpTraffic>& traffic);
std::vector<flow::LaneSample> LaneSamplesOf(const Lanes& lanes, const std::vector<net::TcpTraffic>& traffic);
// Of the lanes for small segments; of those that do not leave the region nothing is known.
std::vector<flow::LaneAllowance> AllowancesOf(const std::vector<net::TcpTraffic>& traffic);

// By lane; of those that are not in use for every size nothing is known.
std::vector<flow::LaneHaste> HastesOf(const Lanes& lanes, std::size_t large,
                                      const std::vector<net::TcpTraffic>& traffic);

// No lane sends bursts much faster than all together may send, which is what flow::TokenBucket sees to; 0: no limit.
void LimitBursts(const Lanes& lanes, double bytes_per_second);

}  // namespace ringway::daemon
