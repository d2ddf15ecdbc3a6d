// Who is where in a view: ranks, the ring, and which algorithm is right for which size. Pure.
//
// Planned from what the daemons have measured (path_book.h); where they have not, by the planner's assumptions
// (path_matrix.h).
#pragma once

#include <ringway/types.h>

#include <cstdint>
#include <vector>

#include "master/planning/cost_model.h"
#include "master/planning/path_matrix.h"
#include "master/planning/route_rings.h"
#include "master/planning/routes.h"
#include "proto/control.pb.h"

namespace ringway {

// Sorts into rank order: by site, then by peer id, so that the ring crosses between sites as rarely as it can.
void SortByRank(std::vector<control::PeerInfo>& members);

// Ring order as ranks, for members in rank order. Where all of them are in `current` already, it is the ring they have,
// without those who are gone: a recovery waits for no search.
std::vector<std::uint32_t> RingOrder(const std::vector<control::PeerInfo>& members, const PathMatrix& paths,
                                     const control::View& current);

// With what is best along with this ring. A recovery has no time for more than strides.
Routes RoutesWith(const std::vector<std::uint32_t>& ring, const PathMatrix& paths, RingSearch search);

// What a view has of them.
Routes RoutesOf(const control::View& view);
void SetRoutes(const Routes& routes, control::View* view);

// What prices the algorithms for members that go by `routes` under `plan`.
CostModel ModelOf(const PathMatrix& paths, const Routes& routes, const control::Plan& plan);

// Fills in the plan's table of algorithms: none, so always a ring, where all are on one host. Lowers retained_bytes_max
// to what takes less time to copy than the exchange of DONE takes, but not below what is small. If nothing was
// measured, `current`'s remain, or a table for moderate delays, and only what is small.
void PlanOperations(const PathMatrix& paths, const Routes& routes, const control::View& current, control::Plan* plan);

// Whether members are at several sites, or a round trip is kFarRoundTrip or longer: then the network between them is
// silent at times, with nobody dead.
bool AreFarApart(const PathMatrix& paths);

// Of the plan's table; a ring beyond it.
Algorithm AlgorithmFor(const control::Plan& plan, std::uint64_t bytes);

// Gives the view a better ring (WorthSwitching), or better shares, rings or a better table (over 10% faster at some
// size; equal shares where they are no slower), if there are any for its members, as far as `paths` tell; with what
// `plan` says of the rest. False, and nothing is changed, if there is none.
bool Improve(const PathMatrix& paths, const control::Plan& plan, control::View* view);

}  // namespace ringway
