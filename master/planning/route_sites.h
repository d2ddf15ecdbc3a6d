// Which ranks the hierarchical schedule takes together, and the share of the buffer that each such site owns. Pure and
// deterministic.
//
// Ranks share an uplink inside a host, and may inside a site, or where nobody named sites with those that are near, so
// all three are tried, with equal shares and with those that DirectShares() finds between the sites as a whole; the
// fastest at kSitesBytes counts.
#pragma once

#include <cstdint>

#include "master/planning/path_matrix.h"
#include "master/planning/routes.h"

namespace ringway {

// Large enough for the uplinks to count.
inline constexpr std::uint64_t kSitesBytes = 16 << 20;

// Sets `routes->sites` and `site_shares`. REQUIRES: the ring is set.
void ChooseSites(const PathMatrix& measured, Routes* routes);

}  // namespace ringway
