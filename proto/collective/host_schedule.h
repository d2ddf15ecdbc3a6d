// The part of an all-reduce's schedule that leaves a process in which several ranks are: these read each other's memory
// (daemon/collective/host_board.h). Pure.
#pragma once

#include <span>

#include "proto/collective/schedule.h"
#include "proto/ids.h"

namespace ringway::collective {

// Returns whether the ranks are one site of the routes: then a hierarchical schedule sums and copies among them alone
// what they have of their own, and each chunk leaves them once.
bool IsSite(const Routes& routes, std::span<const Rank> host);

// Returns the schedule, of one of these ranks, without the transfers among them: Sum::kOwn, which comes first, stands
// for the sum of all of them. REQUIRES: hierarchical, of which they are a site of two ranks at least.
Schedule WithoutHost(Schedule schedule, std::span<const Rank> host);

}  // namespace ringway::collective
