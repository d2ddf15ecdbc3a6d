#include "master/topology.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace ringway {

void SortByRank(std::vector<control::PeerInfo>& members) {
  std::sort(members.begin(), members.end(), [](const control::PeerInfo& a, const control::PeerInfo& b) {
    return std::forward_as_tuple(a.site(), a.peer_id()) < std::forward_as_tuple(b.site(), b.peer_id());
  });
}

std::vector<std::uint32_t> RingOrder(const std::vector<control::PeerInfo>& members) {
  std::vector<std::uint32_t> ring(members.size());  // ranks are in site order already
  std::iota(ring.begin(), ring.end(), 0);
  return ring;
}

}  // namespace ringway
