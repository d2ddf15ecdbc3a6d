#include "daemon/agreement/links.h"

#include <algorithm>
#include <utility>

#include "proto/mutation.h"
#include "proto/rules.h"

namespace ringway::agreement {

// ---------------------------------------------------------------------------------------------- links

void Links::Want(const control::PeerInfo& other) {
  const Home& home = ctx_.options.home;
  const bool at_home = !home.daemon.empty() && other.daemon() == home.daemon;
  mesh_.Want(PeerId(other.peer_id()), {.address = other.address().empty() && at_home ? home.address : other.address(),
                                       .daemon = other.daemon(),
                                       .reaches_us = home.is_reachable || at_home});
}

void Links::Forget(PeerId other) {
  ctx_.Emit(CloseLinks{other, {}});
  mesh_.Forget(other);
  lanes_.Forget(other);
  losses_.erase(other);
  streams_.erase(other);
  round_trips_.erase(other);
  std::erase_if(in_process_, [other](const LinkId& link) { return link.other == other; });
}

Status Links::Admit(const LinkId& link, const LinkTerms& terms, const Identity* who) const {
  if (ctx_.views.ended()) return {Code::kJoinRefused, "this peer has left its group"};
  return mesh_.Admit(link, terms, who);
}

bool Links::OnUp(const LinkId& link, const LinkTerms& terms) {
  if (terms.in_process)
    in_process_.insert(link);
  else
    in_process_.erase(link);
  if (terms.round_trip > Duration::zero()) {
    Duration& shortest = round_trips_.try_emplace(link.other, terms.round_trip).first->second;
    shortest = std::min(shortest, terms.round_trip);
  }
  if (terms.dialled_all) {
    RINGWAY_REACHED(kYieldDials);
    if (const auto say = mesh_.Yield(link.other)) SayLanes(link.other, *say);
  }
  if (link.control) {
    const bool stands = mesh_.ControlUp(link.other, ctx_.now);
    SendKept(link.other);
    if (stands) ReportPair(link.other);
    return stands;
  }
  // The other side dialled anew before the end of the old lane was seen here.
  mesh_.Answered(link.other);
  if (lanes_.IsUp(link)) LoseLane(link, "replaced by a new one");
  if (!lanes_.Up(link, terms.generation)) {  // the other side has closed it meanwhile
    ctx_.Emit(CloseLinks{link.other, link.lane});
    (void)mesh_.DialFailed(link.other, false, false, ctx_.now);
    return false;
  }
  const links::Mesh::LaneTerms lanes{
      .lanes = terms.lanes, .lanes_max = terms.lanes_max, .generation = terms.generation};
  const bool stands = mesh_.LaneUp(link.other, link.lane, lanes, ctx_.now);
  if (stands) ReportPair(link.other);
  return stands;
}

void Links::ReportPairs() {
  for (const PeerId peer : mesh_.StandingPeers()) ReportPair(peer);
}

void Links::Release() {
  if (RINGWAY_MUTANT(kKeepHeld)) return;
  if (std::exchange(held_, false)) ReportPairs();
}

void Links::ReportPair(PeerId other) {
  if (held_ && !RINGWAY_MUTANT(kAdmitTheHeld)) return;
  control::ToMaster message;
  message.mutable_connected()->set_peer(ctx_.self.value);
  message.mutable_connected()->set_other(other.value);
  if (const auto found = round_trips_.find(other); found != round_trips_.end()) {
    message.mutable_connected()->set_round_trip_us(static_cast<std::uint32_t>(found->second.count()));
  }
  ctx_.SendToMaster(std::move(message));
}

void Links::OnDown(const LinkId& link, const std::string& why) {
  if (link.control) return LoseControl(link.other, why);
  if (lanes_.IsUp(link)) LoseLane(link, why);
}

// A lost control link accuses nobody yet: unacknowledged messages are kept and resent when the link is up. If the other
// process has ended, all its links end and the dial is refused one round trip later.
void Links::LoseControl(PeerId other, const std::string& why) {
  mesh_.ControlDown(other, ctx_.now);
  ++ctx_.counts.controls_lost;
  ctx_.AddNote("control_down", ctx_.FieldsOf(other) + LogFields{{"why", why}}, LossSeverity());
  if (RINGWAY_MUTANT(kAccuseControl)) listener_.OnFault({other}, "control link: " + why);
  CountLoss(other);
  AccuseGone(other);
  PumpDials();
}

void Links::CountLoss(PeerId other) {
  Losses& losses = losses_[other];
  if (losses.seconds > 0 && ctx_.now - losses.last < std::chrono::seconds(1)) return;
  losses.last = ctx_.now;
  RINGWAY_REACHED_IF(losses.seconds + 1 > kLossesMax, kAccuseFlapping);
  if (++losses.seconds > kLossesMax) listener_.OnFault({other}, "its links fail again and again");
}

void Links::OnDialFailed(PeerId other, bool control, const Status& why) {
  if (!mesh_.DialFailed(other, control, why.code() == Code::kJoinRefused, ctx_.now)) return;
  if (ctx_.view().Contains(other)) return AccuseGone(other);
  control::ToMaster message;
  message.mutable_dial_failed()->set_peer(ctx_.self.value);
  message.mutable_dial_failed()->set_other(other.value);
  message.mutable_dial_failed()->set_text(why.text());
  ctx_.SendToMaster(std::move(message));
}

// All links of a candidate are closed and reopened. The other end may be in a view with us by then, and use them.
void Links::StartOver(PeerId candidate) {
  ctx_.Emit(CloseLinks{candidate, {}});
  for (std::uint32_t lane = 0; lane < kLanesMax; ++lane) {
    const LinkId link{.other = candidate, .control = false, .lane = LaneId(lane)};
    if (lanes_.IsUp(link)) LoseLane(link, "silent");
  }
  mesh_.AllDown(candidate, ctx_.now);
}

void Links::RestartSilent() {
  for (const PeerId silent : SilentFor(ctx_.view().plan.detect)) {
    if (!ctx_.view().Contains(silent) && mesh_.HasControl(silent)) StartOver(silent);
  }
}

bool Links::OnTick() {
  const bool gap = ctx_.now - std::exchange(last_tick_, ctx_.now) > ctx_.view().plan.detect / 2;
  if (gap) mesh_.HeardAll(ctx_.now);
  return gap;
}

void Links::ForgetOldLosses() {
  if (ctx_.now - losses_since_ <= kLossesTime) return;
  losses_since_ = ctx_.now;
  losses_.clear();
}

void Links::PumpDials() {
  if (ctx_.views.ended()) return;
  for (const links::Mesh::TakenOver& pair : mesh_.TakeOver(ctx_.now)) {
    RINGWAY_REACHED(kTakeOverDials);
    ctx_.AddNote("dials_for_both", ctx_.FieldsOf(pair.other) + LogFields{{"why", "it does not reach this daemon"}});
    if (pair.say) SayLanes(pair.other, *pair.say);
  }
  for (links::Dial& dial : mesh_.TakeDials(ctx_.now)) ctx_.Emit(std::move(dial));
}

void Links::OnView() {
  losses_.clear();
  for (const PeerId member : ctx_.view().members) Heard(member);
}

void Links::AccuseGone(PeerId other) {
  RINGWAY_REACHED_IF(mesh_.IsGone(other), kAccuseGone);
  if (mesh_.IsGone(other)) listener_.OnFault({other}, "all its links are closed, and it refuses new ones");
}

void Links::AccuseBroken() {
  std::vector<PeerId> broken;
  for (const PeerId member : ctx_.view().members) {
    if (member == ctx_.self) continue;
    if (mesh_.BrokenFor(member, ctx_.now, ctx_.view().plan.detect)) broken.push_back(member);
    const auto stream = streams_.find(member);
    RINGWAY_REACHED_IF(stream != streams_.end() && stream->second.is_full(), kAccuseFull);
    if (stream != streams_.end() && stream->second.is_full())
      listener_.OnFault({member}, "it takes no control messages");
  }
  RINGWAY_REACHED_IF(!broken.empty(), kAccuseBroken);
  if (!broken.empty()) listener_.OnFault(broken, "its links could not be opened again");
}

Duration Links::SuspicionTime() const {
  const Plan& plan = ctx_.view().plan;
  return std::max(plan.detect / 2, plan.detect - 2 * plan.heartbeat);
}

std::set<PeerId> Links::Suspects() const {
  const std::vector<PeerId> silent = SilentFor(SuspicionTime());
  std::set<PeerId> suspects;
  for (const PeerId member : ctx_.view().members) {
    const bool is_silent = std::find(silent.begin(), silent.end(), member) != silent.end();
    if (member != ctx_.self && (is_silent || mesh_.IsBroken(member))) suspects.insert(member);
  }
  return suspects;
}

// ---------------------------------------------------------------------------------------------- lanes that end

void Links::LoseLane(const LinkId& lane, const std::string& why) {
  listener_.OnLaneDown(lane);
  mesh_.LaneDown(lane.other, lane.lane, ctx_.now);
  SendLaneClosed(lane.other, lanes_.Down(lane));
  if (!mesh_.WantsLane(lane.other, lane.lane)) return;
  ++ctx_.counts.lanes_lost;
  ctx_.AddNote("lane_down", ctx_.FieldsOf(lane.other) + LogFields{{"lane", lane.lane.value}, {"why", why}},
               LossSeverity());
  CountLoss(lane.other);
  AccuseGone(lane.other);
}

void Links::SendLaneClosed(PeerId to, const control::LaneClosed& closed) {
  control::PeerMessage message;
  *message.mutable_lane_closed() = closed;
  Send(to, std::move(message));
}

void Links::OnLaneClosed(PeerId from, const control::LaneClosed& closed) {
  if (!mesh_.Knows(from) || closed.lane() >= kLanesMax) return;
  RINGWAY_REACHED(kTakeLaneClosed);
  links::LaneLedger::Settled settled = lanes_.OnClosed(from, closed);
  if (settled.close) {
    const LinkId lane{.other = from, .control = false, .lane = LaneId(closed.lane())};
    ctx_.Emit(CloseLinks{from, lane.lane});
    LoseLane(lane, "closed by the other side");
    settled = lanes_.OnClosed(from, closed);
  }
  RINGWAY_REACHED_IF(settled.answer.has_value(), kAnswerUnseenLane);
  if (settled.answer) SendLaneClosed(from, *settled.answer);
  if (settled.refused) listener_.OnFrameRefused(*settled.refused);
  for (auto frame = settled.lost.rbegin(); frame != settled.lost.rend(); ++frame) listener_.OnFrameLost(from, *frame);
}

// ---------------------------------------------------------------------------------------------- how many

void Links::WantLanes(PeerId other, std::uint32_t lanes, links::Mesh::End who) {
  RINGWAY_REACHED_IF(who == links::Mesh::End::kThere, kTakeLanesWanted);
  const links::Mesh::LanesNews news = mesh_.WantLanes(other, lanes, who);
  if (news.say) SayLanes(other, *news.say);
  for (const LaneId lane : news.close) {
    RINGWAY_REACHED(kCloseExcessLane);
    ctx_.Emit(CloseLinks{other, lane});
    LoseLane({.other = other, .control = false, .lane = lane}, "it is of no more use");
  }
  PumpDials();
}

void Links::SayLanes(PeerId to, std::uint32_t lanes) {
  control::PeerMessage message;
  message.mutable_lanes_wanted()->set_lanes(lanes);
  Send(to, std::move(message));
}

// ---------------------------------------------------------------------------------------------- control messages

void Links::Send(PeerId to, control::PeerMessage message) {
  if (!mesh_.Knows(to)) return;
  links::ControlStream& stream = streams_[to];
  if (!message.has_heartbeat() && !stream.Number(message)) return;  // it is accused with the next tick
  if (!mesh_.HasControl(to)) return;
  stream.Stamp(message);
  ctx_.Emit(ToPeer{to, std::move(message)});
}

void Links::SendKept(PeerId to) {
  if (RINGWAY_MUTANT(kForgetMessages)) return;
  links::ControlStream& stream = streams_[to];
  for (control::PeerMessage message : stream.kept()) {
    RINGWAY_REACHED(kResendMessages);
    stream.Stamp(message);
    ctx_.Emit(ToPeer{to, std::move(message)});
  }
}

void Links::Broadcast(const control::PeerMessage& message) {
  for (const PeerId member : ctx_.view().members) {
    if (member != ctx_.self) Send(member, message);
  }
}

void Links::SendHeartbeats(const control::PeerMessage& heartbeat) {
  last_heartbeat_ = ctx_.now;
  for (const PeerId peer : mesh_.ControlPeers()) Send(peer, heartbeat);
}

links::ControlStream::Verdict Links::Take(PeerId from, const control::PeerMessage& message) {
  Heard(from);
  return streams_[from].Take(message);
}

bool Links::Keeps(PeerId to, const std::function<bool(const control::PeerMessage&)>& like) const {
  const auto stream = streams_.find(to);
  return stream != streams_.end() && std::any_of(stream->second.kept().begin(), stream->second.kept().end(), like);
}

bool Links::MustAcknowledge(PeerId other) const {
  const auto stream = streams_.find(other);
  return stream != streams_.end() && stream->second.MustAcknowledge();
}

// ---------------------------------------------------------------------------------------------- frames

void Links::CountOut(const LinkId& lane, const links::SentFrame& frame) {
  lanes_.CountOut(lane, frame, [this](std::uint64_t attempt) { return attempts_.IsLive(attempt); });
}

}  // namespace ringway::agreement
