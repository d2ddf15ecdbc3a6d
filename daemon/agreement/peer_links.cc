// Links that come, break and are dialled again, who is lost with them, and how many lanes a pair has.
#include <algorithm>

#include "daemon/agreement/peer_impl.h"
#include "proto/mutation.h"

namespace ringway::agreement {

// ---------------------------------------------------------------------------------------------- links

void Peer::Impl::DropLinks(PeerId other) {
  if (!mesh_.Knows(other)) return;
  DropFramesOf(other);
  ctx_.Emit(CloseLinks{other, {}});
  mesh_.Forget(other);
  lanes_.Forget(other);
  link_losses_.erase(other);
  streams_.erase(other);
  round_trips_.erase(other);
  meter_.Forget(other);
  prober_.Forget(other);
}

Status Peer::Impl::Admit(const LinkId& link, std::uint32_t lanes) const {
  if (ctx_.views.ended()) return {Code::kJoinRefused, "this peer has left its group"};
  return mesh_.Admit(link.other, link.control, link.lane, lanes);
}

void Peer::Impl::OnLinkUp(const LinkId& link, const LinkTerms& terms, TimePoint now) {
  ctx_.now = now;
  if (!mesh_.Knows(link.other)) return;
  if (ctx_.view().Contains(link.other)) watchdog_.Moved(now);
  if (terms.round_trip > Duration::zero()) {
    Duration& shortest = round_trips_.try_emplace(link.other, terms.round_trip).first->second;
    shortest = std::min(shortest, terms.round_trip);
  }
  if (link.control) {
    const bool stands = mesh_.ControlUp(link.other, now);
    SendKept(link.other);
    if (stands) OnStanding(link.other, terms.probe_bytes);
    return;
  }
  // The other side dialled anew before the end of the old lane was seen here.
  mesh_.Answered(link.other);
  if (lanes_.IsUp(link)) LoseLane(link, "replaced by a new one");
  if (!lanes_.Up(link, terms.generation)) {  // the other side has closed it meanwhile
    ctx_.Emit(CloseLinks{link.other, link.lane});
    (void)mesh_.DialFailed(link.other, false, false, now);
    return;
  }
  const links::Mesh::LaneTerms lanes{.lanes = terms.lanes, .lanes_max = terms.lanes_max};
  if (mesh_.LaneUp(link.other, link.lane, lanes, now)) OnStanding(link.other, terms.probe_bytes);
}

void Peer::Impl::ReportPair(PeerId other) {
  control::ToMaster message;
  message.mutable_connected()->set_peer(ctx_.self.value);
  message.mutable_connected()->set_other(other.value);
  if (const auto found = round_trips_.find(other); found != round_trips_.end()) {
    message.mutable_connected()->set_round_trip_us(static_cast<std::uint32_t>(found->second.count()));
  }
  ctx_.SendToMaster(std::move(message));
}

void Peer::Impl::OnLinkDown(const LinkId& link, const std::string& why, TimePoint now) {
  ctx_.now = now;
  if (!mesh_.Knows(link.other)) return;
  if (ctx_.view().Contains(link.other)) watchdog_.Moved(now);
  if (link.control) return LoseControl(link.other, why);
  if (lanes_.IsUp(link)) LoseLane(link, why);
}

// Nobody's fault yet: what was sent is kept, and sent again when the link is up. Of a process that has ended, all links
// end and the dial is refused, one round trip later.
void Peer::Impl::LoseControl(PeerId other, const std::string& why) {
  mesh_.ControlDown(other, ctx_.now);
  ++ctx_.counts.controls_lost;
  ctx_.AddNote("control_down", ctx_.FieldsOf(other) + " why=" + why,
               ctx_.views.running() ? Severity::kWarning : Severity::kInfo);
  if (RINGWAY_MUTANT(kAccuseControl)) Accuse({other}, "control link: " + why);
  CountLoss(other);
  AccuseGone(other);
  PumpDials();
}

void Peer::Impl::CountLoss(PeerId other) {
  LinkLosses& losses = link_losses_[other];
  if (losses.seconds > 0 && ctx_.now - losses.last < std::chrono::seconds(1)) return;
  losses.last = ctx_.now;
  if (++losses.seconds > kLinkLossesMax) Accuse({other}, "its links fail again and again");
}

void Peer::Impl::OnDialFailed(PeerId other, bool control, const Status& why, TimePoint now) {
  ctx_.now = now;
  if (!mesh_.Knows(other)) return;
  if (!mesh_.DialFailed(other, control, why.code() == Code::kJoinRefused, now)) return;
  if (ctx_.view().Contains(other)) return AccuseGone(other);
  control::ToMaster message;
  message.mutable_dial_failed()->set_peer(ctx_.self.value);
  message.mutable_dial_failed()->set_other(other.value);
  message.mutable_dial_failed()->set_text(why.text());
  ctx_.SendToMaster(std::move(message));
}

// Of a candidate all links are closed and opened anew. The other end may be in a view with us by then, and use them.
void Peer::Impl::StartOver(PeerId candidate) {
  ctx_.Emit(CloseLinks{candidate, {}});
  for (std::uint32_t lane = 0; lane < kLanesMax; ++lane) {
    const LinkId link{.other = candidate, .control = false, .lane = LaneId(lane)};
    if (lanes_.IsUp(link)) LoseLane(link, "silent");
  }
  mesh_.AllDown(candidate, ctx_.now);
}

void Peer::Impl::PumpDials() {
  if (ctx_.views.ended()) return;
  for (links::Dial& dial : mesh_.TakeDials(ctx_.now)) ctx_.Emit(std::move(dial));
}

// Who installs a view with a peer it has lost aborts that view too.
void Peer::Impl::AccuseMissing() {
  if (RINGWAY_MUTANT(kForgetOldLosses)) return;
  if (!lost_.empty()) Trouble("the view contains a lost peer");
  for (const PeerId member : ctx_.view().members) {
    if (member != ctx_.self && !mesh_.Knows(member)) Accuse({member}, "it was forgotten before the view began");
    AccuseGone(member);
  }
}

void Peer::Impl::AccuseGone(PeerId other) {
  if (mesh_.IsGone(other)) Accuse({other}, "all its links are closed, and it refuses new ones");
}

void Peer::Impl::AccuseBroken() {
  for (const PeerId member : ctx_.view().members) {
    if (member == ctx_.self) continue;
    if (mesh_.BrokenFor(member, ctx_.now, ctx_.view().plan.detect))
      Accuse({member}, "its links could not be opened again");
    const auto stream = streams_.find(member);
    if (stream != streams_.end() && stream->second.is_full()) Accuse({member}, "it takes no control messages");
  }
}

// Whoever has been silent for almost as long as the first is missed with it: the master must learn at once that this
// peer hears nobody, before it weighs one accusation alone.
void Peer::Impl::AccuseSilent() {
  const auto is_news = [this](PeerId peer) { return ctx_.view().Contains(peer) && !lost_.contains(peer); };
  const Duration detect = ctx_.view().plan.detect;
  const std::vector<PeerId> first = mesh_.SilentSince(ctx_.now, detect);
  if (std::none_of(first.begin(), first.end(), is_news)) return;
  Accuse(mesh_.SilentSince(ctx_.now, std::max(detect / 2, detect - 2 * ctx_.view().plan.heartbeat)),
         "silent for " + std::to_string(detect.count() / 1000) + " ms");
}

// ---------------------------------------------------------------------------------------------- lanes that end

void Peer::Impl::LoseLane(const LinkId& lane, const std::string& why) {
  DropFrame(lane);
  mesh_.LaneDown(lane.other, lane.lane, ctx_.now);
  SendLaneClosed(lane.other, lanes_.Down(lane));
  if (!mesh_.WantsLane(lane.other, lane.lane)) return;
  ++ctx_.counts.lanes_lost;
  ctx_.AddNote(
      "lane_down", ctx_.FieldsOf(lane.other) + " lane=" + std::to_string(lane.lane.value) + " why=" + why,
      ctx_.views.running() ? Severity::kWarning : Severity::kInfo);  // in a recovery lanes go down with their peers
  CountLoss(lane.other);
  AccuseGone(lane.other);
}

void Peer::Impl::SendLaneClosed(PeerId to, const control::LaneClosed& closed) {
  control::PeerMessage message;
  *message.mutable_lane_closed() = closed;
  Send(to, std::move(message));
}

void Peer::Impl::OnLaneClosed(PeerId from, const control::LaneClosed& closed) {
  if (!mesh_.Knows(from) || closed.lane() >= kLanesMax) return;
  links::LaneLedger::Settled settled = lanes_.OnClosed(from, closed);
  if (settled.close) {
    const LinkId lane{.other = from, .control = false, .lane = LaneId(closed.lane())};
    ctx_.Emit(CloseLinks{from, lane.lane});
    LoseLane(lane, "closed by the other side");
    settled = lanes_.OnClosed(from, closed);
  }
  if (settled.answer) SendLaneClosed(from, *settled.answer);
  if (settled.refused) OnRefused(*settled.refused);
  for (auto frame = settled.lost.rbegin(); frame != settled.lost.rend(); ++frame) Resend(from, *frame);
}

// ---------------------------------------------------------------------------------------------- how many

void Peer::Impl::WantLanes(PeerId other, std::uint32_t lanes, TimePoint now) {
  ctx_.now = now;
  OnLanesNews(other, mesh_.WantLanes(other, lanes, links::Mesh::End::kHere));
}

void Peer::Impl::OnLanesWanted(PeerId from, const control::LanesWanted& wanted) {
  OnLanesNews(from, mesh_.WantLanes(from, wanted.lanes(), links::Mesh::End::kThere));
}

void Peer::Impl::OnLanesNews(PeerId other, const links::Mesh::LanesNews& news) {
  if (news.say) SayLanes(other, *news.say);
  for (const LaneId lane : news.close) {
    ctx_.Emit(CloseLinks{other, lane});
    LoseLane({.other = other, .control = false, .lane = lane}, "it is of no more use");
  }
  PumpDials();
}

void Peer::Impl::SayLanes(PeerId to, std::uint32_t lanes) {
  control::PeerMessage message;
  message.mutable_lanes_wanted()->set_lanes(lanes);
  Send(to, std::move(message));
}

}  // namespace ringway::agreement
