// What a group's views say of its ring and its algorithms, and when that is thought over.
#include <algorithm>

#include "master/group.h"
#include "master/topology.h"

namespace ringway {

void Group::OnMeasured(const control::Measured& measured) {
  const PeerId peer(measured.peer());
  const PeerId other(measured.other());
  if (other == PeerId()) {
    (void)paths_.SetUplink(peer, measured.bytes_per_second());
  } else if (other != peer && peers_.contains(other)) {
    (void)paths_.SetRate(peer, other, measured.bytes_per_second());
    (void)paths_.SetRoundTrip(peer, other, Duration(measured.round_trip_us()));
  }
}

control::View Group::MakeView(const std::set<PeerId>& members, const control::View& before) {
  control::View view;
  view.set_group(name_);
  view.set_epoch(host_.NextEpoch().value);
  *view.mutable_plan() = options_.plan;  // its algorithms follow
  view.set_fail_on_peer_loss(fail_on_peer_loss_);
  std::vector<control::PeerInfo> infos;
  for (const PeerId peer : members) {
    infos.push_back(peers_.at(peer).info);
    min_world_ = std::max(min_world_, peers_.at(peer).min_world);
  }
  SortByRank(infos);
  const PathMatrix paths = paths_.Between(infos);
  const std::vector<std::uint32_t> ring = RingOrder(infos, paths, before);
  for (const std::uint32_t rank : ring) view.add_ring(rank);
  PlanAlgorithms(paths, ring, before, view.mutable_plan());
  for (control::PeerInfo& info : infos) *view.add_members() = std::move(info);
  view.set_min_world(min_world_);
  return view;
}

PathMatrix Group::CurrentPaths() const {
  return paths_.Between({current_.members().begin(), current_.members().end()});
}

}  // namespace ringway
