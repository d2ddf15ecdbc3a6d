// The order of members in a view and around its ring. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "proto/control.pb.h"

namespace ringway {

// Sorts into rank order: by site, then by peer id, so that the ring crosses between sites as rarely as it can.
void SortByRank(std::vector<control::PeerInfo>& members);

// Ring order as ranks, for members in rank order.
std::vector<std::uint32_t> RingOrder(const std::vector<control::PeerInfo>& members);

}  // namespace ringway
