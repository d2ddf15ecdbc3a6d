// Who is where in a view: ranks, the ring, and which algorithm is right for which size. Pure.
//
// Planned from the round trips that the members' connections saw. Rates are not measured: each peer counts with the
// planner's assumption (path_matrix.h), so a ring is ordered by delay, sites together.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "master/path_matrix.h"
#include "proto/clock.h"
#include "proto/control.pb.h"
#include "proto/ids.h"

namespace ringway {

// By pair, as the first of it saw them.
using RoundTrips = std::map<std::pair<PeerId, PeerId>, Duration>;

// Sorts into rank order: by site, then by peer id, so that the ring crosses between sites as rarely as it can.
void SortByRank(std::vector<control::PeerInfo>& members);

// For members in rank order. Of the two ends' round trips the shorter counts.
PathMatrix PathsBetween(const std::vector<control::PeerInfo>& members, const RoundTrips& round_trips);

// Ring order as ranks, for members in rank order. Where all of them are in `current` already, it is the ring they have,
// without those who are gone: a recovery waits for no search.
std::vector<std::uint32_t> RingOrder(const std::vector<control::PeerInfo>& members, const PathMatrix& paths,
                                     const control::View& current);

// Fills in the plan's table of algorithms: none, so always a ring, where all are on one host. If nothing was measured,
// `current`'s remains, or one for moderate delays.
void PlanAlgorithms(const PathMatrix& paths, const std::vector<std::uint32_t>& ring, const control::View& current,
                    control::Plan* plan);

}  // namespace ringway
