// Lanes that end, and how many a pair has.
#include "daemon/core/peer_impl.h"

namespace ringway::core {

void Peer::Impl::LoseLane(const LinkId& lane, const std::string& why) {
  DropFrame(lane);
  mesh_.LaneDown(lane.other, lane.lane, now_);
  SendLaneClosed(lane.other, lanes_.Down(lane));
  if (!mesh_.WantsLane(lane.other, lane.lane)) return;
  ++lanes_lost_;
  AddNote("lane_down", "other=" + NameOf(lane.other) + " lane=" + std::to_string(lane.lane.value) + " why=" + why,
          running());  // in a recovery lanes go down with their peers
  if (++lane_losses_[lane.other] > kLaneLossesMax) Accuse({lane.other}, "its lanes fail again and again");
}

void Peer::Impl::SendLaneClosed(PeerId to, const control::LaneClosed& closed) {
  control::PeerMessage message;
  *message.mutable_lane_closed() = closed;
  Emit(ToPeer{to, std::move(message)});
}

void Peer::Impl::OnLaneClosed(PeerId from, const control::LaneClosed& closed) {
  if (!mesh_.Knows(from) || closed.lane() >= kLanesMax) return;
  LaneBook::Settled settled = lanes_.OnClosed(from, closed);
  if (settled.close) {
    const LinkId lane{.other = from, .control = false, .lane = LaneId(closed.lane())};
    Emit(CloseLinks{from, lane.lane});
    LoseLane(lane, "closed by the other side");
    settled = lanes_.OnClosed(from, closed);
  }
  if (settled.answer) SendLaneClosed(from, *settled.answer);
  for (auto frame = settled.lost.rbegin(); frame != settled.lost.rend(); ++frame) Resend(from, *frame);
}

// ---------------------------------------------------------------------------------------------- how many

void Peer::Impl::WantLanes(PeerId other, std::uint32_t lanes, TimePoint now) {
  now_ = now;
  OnLanesNews(other, mesh_.WantLanes(other, lanes, Mesh::End::kHere));
}

void Peer::Impl::OnLanesWanted(PeerId from, const control::LanesWanted& wanted) {
  OnLanesNews(from, mesh_.WantLanes(from, wanted.lanes(), Mesh::End::kThere));
}

void Peer::Impl::OnLanesNews(PeerId other, const Mesh::LanesNews& news) {
  if (news.say) SayLanes(other, *news.say);
  for (const LaneId lane : news.close) {
    Emit(CloseLinks{other, lane});
    LoseLane({.other = other, .control = false, .lane = lane}, "it is of no more use");
  }
  PumpDials();
}

void Peer::Impl::SayLanes(PeerId to, std::uint32_t lanes) {
  control::PeerMessage message;
  message.mutable_lanes_wanted()->set_lanes(lanes);
  Emit(ToPeer{to, std::move(message)});
}

}  // namespace ringway::core
