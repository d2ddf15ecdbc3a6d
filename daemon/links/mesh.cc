#include "daemon/links/mesh.h"

#include <algorithm>
#include <utility>

#include "proto/mutation.h"

namespace ringway::links {

bool Mesh::Pair::has_first_lanes() const {
  const auto first = std::distance(lanes.begin(), lanes.lower_bound(LaneId(lanes_expected)));
  return lanes_expected > 0 && static_cast<std::uint32_t>(first) == lanes_expected;
}

std::uint32_t Mesh::Pair::wanted() const {
  if (!MayGrow(lanes_expected)) return lanes_expected;
  const std::uint32_t of_use = dials_lanes ? std::min(said(), lanes_max) : used_there;
  return std::max(lanes_expected, of_use);
}

std::vector<LaneId> Mesh::Pair::missing() const {
  std::vector<LaneId> out;
  const auto add = [&](std::uint32_t begin, std::uint32_t end, std::size_t most) {
    for (std::uint32_t lane = begin; lane < end && out.size() < most; ++lane) {
      if (!lanes.contains(LaneId(lane))) out.emplace_back(lane);
    }
  };
  add(0, lanes_expected, lanes_expected);
  if (out.empty()) add(lanes_expected, wanted(), kMoreAtOnce);
  return out;
}

void Mesh::Want(PeerId other, const PeerPlace& at) {
  if (other == self_) return;
  const auto [found, is_new] = pairs_.try_emplace(other);
  Pair& pair = found->second;
  pair.at = at;
  if (!is_new) return;
  pair.dials_control = self_ > other;
  pair.dials_lanes = self_ < other;
  if (at.address.empty() || !at.reaches_us) (void)pair.DialAll(!at.address.empty());
}

void Mesh::Forget(PeerId other) { pairs_.erase(other); }

Status Mesh::Admit(const LinkId& link, const LinkTerms& terms, const Identity* who) const {
  const auto [other, control, lane] = link;
  const std::uint32_t lanes = terms.lanes;
  if (!Knows(other)) return {Code::kJoinRefused, "peer " + ToString(other) + " is not known here (yet)"};
  const Pair& pair = pairs_.at(other);
  const bool yields = !RINGWAY_MUTANT(kYieldNothing) && terms.dialled_all && (!pair.dials_all() || other > self_);
  if ((control ? pair.dials_control : pair.dials_lanes) && !yields) {
    return {Code::kProtocol, "the other side of the pair dials this link"};
  }
  if (!control && (lanes == 0 || lane.value >= (MayGrow(lanes) ? kLanesMax : lanes) || lanes > kLanesMax)) {
    return {Code::kProtocol, "lane " + std::to_string(lane.value) + " of " + std::to_string(lanes) + " cannot be"};
  }
  if (who != nullptr && *who != Identity{.role = ProcessRole::kDaemon, .name = pair.at.daemon}) {
    return {Code::kProtocol,
            "peer " + ToString(other) + " is of daemon " + pair.at.daemon + ", and this is " + ToString(*who)};
  }
  if (!control && !pair.lanes.empty() && pair.lanes_expected != lanes) {
    return {Code::kProtocol, "the pair has " + std::to_string(pair.lanes_expected) + " lanes"};
  }
  return Status::Ok();
}

std::optional<std::uint32_t> Mesh::Yield(PeerId other) {
  const auto found = pairs_.find(other);
  if (found == pairs_.end() || found->second.dials_none()) return std::nullopt;
  Pair& pair = found->second;
  pair.control_attempt = pair.lane_attempt = {};
  return pair.DialAll(false);
}

bool Mesh::ControlUp(PeerId other, TimePoint now) {
  const auto found = pairs_.find(other);
  if (found == pairs_.end()) return false;
  Pair& pair = found->second;
  if (!std::exchange(pair.control, true)) {
    pair.control_since = now;
    pair.is_ahead = pair.lanes.empty();
  }
  pair.heard = now;
  pair.refused = false;
  pair.knows_us = true;
  pair.control_attempt = {};
  return pair.standing();
}

bool Mesh::LaneUp(PeerId other, LaneId lane, const LaneTerms& terms, TimePoint now) {
  const auto found = pairs_.find(other);
  if (found == pairs_.end()) return false;
  Pair& pair = found->second;
  Attempt& attempt = pair.lane_attempt;
  if (pair.lanes_expected != terms.lanes) {
    pair.lanes.clear();
    pair.lanes_expected = terms.lanes;
    const std::vector<LaneId> all = pair.missing();
    attempt.awaited = {all.begin(), all.end()};
  }
  pair.lanes_max = terms.lanes_max;
  pair.generation = std::max(pair.generation, terms.generation);
  const bool stood = pair.standing();
  if (pair.lanes.empty()) {
    pair.lanes_since = now;
    pair.is_ahead = !pair.control;
  }
  pair.lanes.insert(lane);
  pair.heard = now;
  pair.refused = false;
  pair.knows_us = true;
  attempt.awaited.erase(lane);
  if (pair.complete()) {
    attempt = {};
  } else if (attempt.dialling && attempt.awaited.empty()) {  // other lanes have gone down since it began
    attempt = {.next = now + kPauseMin};
  }
  return !stood && pair.standing();
}

void Mesh::ControlDown(PeerId other, TimePoint now) {
  const auto found = pairs_.find(other);
  if (found == pairs_.end()) return;
  Pair& pair = found->second;
  const bool steady = now - pair.control_since > kSteady;
  pair.control_attempt = {.next = now + (steady ? Duration::zero() : kPauseMin)};
  if (!std::exchange(pair.control, false)) return;
  pair.control_since = now;
  pair.is_ahead = false;
}

void Mesh::Answered(PeerId other) {
  const auto found = pairs_.find(other);
  if (found != pairs_.end()) found->second.refused = false;
}

void Mesh::LaneDown(PeerId other, LaneId lane, TimePoint now) {
  const auto found = pairs_.find(other);
  if (found == pairs_.end()) return;
  Pair& pair = found->second;
  const bool carried = pair.carries();
  if (pair.lanes.erase(lane) > 0 && pair.lanes.empty()) {
    pair.lanes_since = now;
    pair.is_ahead = false;
  }
  if (carried && !pair.carries()) pair.idle_since = now;
  if (!pair.lane_attempt.dialling) pair.lane_attempt.next = std::max(pair.lane_attempt.next, now + kPauseMin);
}

void Mesh::AllDown(PeerId other, TimePoint now) {
  ControlDown(other, now);
  const auto found = pairs_.find(other);
  if (found == pairs_.end()) return;
  found->second.lanes.clear();
  found->second.idle_since = found->second.lanes_since = now;
  found->second.is_ahead = false;
  found->second.lane_attempt = {.next = now + kPauseMin};
}

void Mesh::Failed(Attempt& attempt, TimePoint now) {
  attempt.dialling = false;
  attempt.awaited.clear();
  attempt.next = now + attempt.pause;
  attempt.pause = std::min(attempt.pause * 2, kPauseMax);
}

bool Mesh::DialFailed(PeerId other, bool control, bool refused, TimePoint now) {
  const auto found = pairs_.find(other);
  if (found == pairs_.end()) return false;
  Pair& pair = found->second;
  if (control ? pair.control : pair.complete()) return false;
  pair.refused = refused;
  Failed(control ? pair.control_attempt : pair.lane_attempt, now);
  return control || !pair.has_first_lanes();
}

Mesh::LanesNews Mesh::WantLanes(PeerId other, std::uint32_t lanes, End who) {
  LanesNews news;
  const auto found = pairs_.find(other);
  if (found == pairs_.end()) return news;
  Pair& pair = found->second;
  const std::uint32_t said = pair.said();
  (who == End::kHere ? pair.used_here : pair.used_there) = std::min(lanes, kLanesMax);
  if (pair.said() != said) news.say = pair.said();
  if (!pair.dials_lanes) news.close.assign(pair.lanes.lower_bound(LaneId(pair.wanted())), pair.lanes.end());
  return news;
}

bool Mesh::IsGone(PeerId other) const {
  const auto found = pairs_.find(other);
  return found != pairs_.end() && !found->second.control && found->second.lanes.empty() && found->second.refused;
}

bool Mesh::WantsLane(PeerId other, LaneId lane) const {
  const auto found = pairs_.find(other);
  return found != pairs_.end() && lane.value < found->second.wanted();
}

bool Mesh::HasControl(PeerId other) const {
  const auto found = pairs_.find(other);
  return found != pairs_.end() && found->second.control;
}

std::vector<PeerId> Mesh::StandingPeers() const {
  std::vector<PeerId> out;
  for (const auto& [peer, pair] : pairs_) {
    if (pair.standing()) out.push_back(peer);
  }
  return out;
}

std::vector<PeerId> Mesh::ControlPeers() const {
  std::vector<PeerId> out;
  for (const auto& [peer, pair] : pairs_) {
    if (pair.control) out.push_back(peer);
  }
  return out;
}

void Mesh::Heard(PeerId other, TimePoint now) {
  const auto found = pairs_.find(other);
  if (found != pairs_.end()) found->second.heard = now;
}

TimePoint Mesh::LastHeard(PeerId other) const {
  const auto found = pairs_.find(other);
  return found == pairs_.end() ? TimePoint() : found->second.heard;
}

void Mesh::HeardAll(TimePoint now) {
  for (auto& [peer, pair] : pairs_) {
    pair.heard = now;
    if (!pair.control) pair.control_since = now;
    if (!pair.carries()) pair.idle_since = now;
    if (pair.lanes.empty()) pair.lanes_since = now;
  }
}

std::vector<PeerId> Mesh::SilentSince(TimePoint now, Duration limit) const {
  std::vector<PeerId> out;
  for (const auto& [peer, pair] : pairs_) {
    if (now - pair.heard > limit) out.push_back(peer);
  }
  return out;
}

bool Mesh::IsBroken(PeerId other) const {
  const auto found = pairs_.find(other);
  if (found == pairs_.end()) return false;
  return !found->second.control || (found->second.lanes_expected > 0 && !found->second.carries());
}

bool Mesh::BrokenFor(PeerId other, TimePoint now, Duration limit) const {
  const auto found = pairs_.find(other);
  if (found == pairs_.end()) return false;
  const Pair& pair = found->second;
  const bool down = !pair.control && pair.lanes.empty();
  const Duration patience = down && pair.dials_none() ? limit / 2 : limit;
  if (!pair.control && now - std::max(pair.control_since, down ? pair.lanes_since : TimePoint()) > patience)
    return true;
  return pair.lanes_expected > 0 && !pair.carries() && now - pair.idle_since > limit;
}

std::optional<std::uint32_t> Mesh::Pair::DialAll(bool here) {
  const std::uint32_t before = said();
  dials_control = dials_lanes = here;
  return said() == before ? std::nullopt : std::optional(said());
}

bool Mesh::Pair::MayTakeOver(TimePoint now) const {
  if (RINGWAY_MUTANT(kTakeNothingOver) || at.address.empty() || now - std::max(control_since, lanes_since) <= kTakeOver)
    return false;
  return is_ahead && dials_control != dials_lanes && dials_control == control;
}

std::vector<Mesh::TakenOver> Mesh::TakeOver(TimePoint now) {
  std::vector<TakenOver> out;
  for (auto& [peer, pair] : pairs_) {
    if (pair.MayTakeOver(now)) out.push_back({.other = peer, .say = pair.DialAll(true)});
  }
  return out;
}

std::vector<Dial> Mesh::TakeDials(TimePoint now) {
  std::vector<Dial> out;
  for (auto& [peer, pair] : pairs_) {
    if (pair.dials_control) AddDial(peer, pair, true, now, out);
    if (pair.dials_lanes) AddDial(peer, pair, false, now, out);
  }
  return out;
}

void Mesh::AddDial(PeerId other, Pair& pair, bool control, TimePoint now, std::vector<Dial>& out) {
  Attempt& attempt = control ? pair.control_attempt : pair.lane_attempt;
  const bool up = control ? pair.control : pair.complete();
  if (up || attempt.next > now || pair.at.address.empty()) return;
  if (attempt.dialling) return Failed(attempt, now);
  attempt.dialling = true;
  attempt.next = now + kAnswerMax;
  Dial& intent = out.emplace_back();
  intent.other = other;
  intent.at = pair.at;
  intent.control = control;
  intent.all = pair.dials_all();
  intent.known = pair.knows_us;
  if (control) return;
  intent.lanes = pair.lanes_expected;
  intent.generation = ++pair.generation;
  intent.missing = pair.missing();
  attempt.awaited = {intent.missing.begin(), intent.missing.end()};
}

}  // namespace ringway::links
