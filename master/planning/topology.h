// The plan of a view: rank order, ring, routes, and the algorithm for each size. Pure.
//
// Based on the daemons' measurements (path_book.h), with assumptions for unknowns (path_matrix.h).
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

// Sorts into rank order: by site, then by peer id, so that the ring has as few crossings between sites as possible.
void SortByRank(std::vector<control::PeerInfo>& members);

// Returns the ring order as ranks, for members in rank order. If all of them are in `current`, this is its ring without
// the peers that are gone: a recovery does not wait for a search.
std::vector<std::uint32_t> RingOrder(const std::vector<control::PeerInfo>& members, const PathMatrix& paths,
                                     const control::View& current);

// Returns this ring with the best shares and rings. A recovery has time for strides only.
Routes RoutesWith(const std::vector<std::uint32_t>& ring, const PathMatrix& paths, RingSearch search);

// Returns the routes in a view.
Routes RoutesOf(const control::View& view);
void SetRoutes(const Routes& routes, control::View* view);

// The cost model for members that use `routes` under `plan`.
CostModel ModelOf(const PathMatrix& paths, const Routes& routes, const control::Plan& plan);

// Fills in the plan's tables of algorithms. Lowers retained_bytes_max to the size whose copy takes as long as the
// exchange of DONE, but not below small_bytes_max. If nothing was measured, both remain as in `current`, or become a
// table for moderate delays and small_bytes_max.
void PlanOperations(const PathMatrix& paths, const Routes& routes, const control::View& current, control::Plan* plan);

// Returns whether members are at several sites, or a round trip is at least kFarRoundTrip: then the network may be
// silent at times although no member is dead.
bool AreFarApart(const PathMatrix& paths);

// Looks up the plan's table; a ring beyond its end.
Algorithm AlgorithmFor(const control::Plan& plan, std::uint64_t bytes);

// Replaces the view's ring (WorthSwitching), or its shares, rings or table, if `paths` allow better ones: over 10%
// faster at some size, or over 10% cheaper where PathMatrix::slower_max lets money count; equal shares if they are no
// slower. Other settings are `plan`'s. Returns false, without a change, if there is nothing better.
bool Improve(const PathMatrix& paths, const control::Plan& plan, control::View* view);

}  // namespace ringway
