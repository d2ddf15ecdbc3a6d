#include "master/topology.h"

#include <gtest/gtest.h>

namespace ringway {
namespace {

TEST(Topology, RingCrossesBetweenTwoSitesTwiceHoweverPeersJoined) {
  std::vector<control::PeerInfo> members;
  for (std::uint64_t id = 1; id <= 6; ++id) {
    control::PeerInfo info;
    info.set_peer_id(id);
    info.set_site(id % 2 == 0 ? "eu" : "us");
    members.push_back(info);
  }
  SortByRank(members);
  const std::vector<std::uint32_t> ring = RingOrder(members);
  int crossings = 0;
  for (std::size_t i = 0; i < ring.size(); ++i) {
    crossings += members[ring[i]].site() != members[ring[(i + 1) % ring.size()]].site() ? 1 : 0;
  }
  EXPECT_EQ(crossings, 2);
}

}  // namespace
}  // namespace ringway
