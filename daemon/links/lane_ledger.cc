#include "daemon/links/lane_ledger.h"

#include <algorithm>
#include <utility>

#include "proto/check.h"
#include "proto/mutation.h"

namespace ringway::links {

bool LaneLedger::Up(const LinkId& id, std::uint64_t generation) {
  Lane& lane = lanes_[id];
  RINGWAY_CHECK(!lane.up);
  if (generation <= lane.newest) return false;
  lane.generation = lane.newest = generation;
  lane.up = true;
  lane.now = {};
  return true;
}

bool LaneLedger::IsUp(const LinkId& id) const {
  const auto found = lanes_.find(id);
  return found != lanes_.end() && found->second.up;
}

void LaneLedger::CountIn(const LinkId& id) {
  if (const auto found = lanes_.find(id); found != lanes_.end()) ++found->second.now.frames_in;
}

void LaneLedger::Refuse(const LinkId& id) {
  if (const auto found = lanes_.find(id); found != lanes_.end()) found->second.now.refused = true;
}

void LaneLedger::CountOut(const LinkId& id, const SentFrame& frame, const IsLive& is_live) {
  Traffic& traffic = lanes_[id].now;
  const std::uint64_t number = traffic.frames_out++;
  if (frame.attempt == 0) return;  // an empty frame: never resent
  if (traffic.sent.size() >= traffic.sweep_at) {
    std::erase_if(traffic.sent, [&](const NumberedFrame& sent) { return !is_live(sent.frame.attempt); });
    traffic.sweep_at = std::max(kSweepMin, 2 * traffic.sent.size());
  }
  traffic.sent.push_back({number, frame});
}

control::LaneClosed LaneLedger::Down(const LinkId& id) {
  Lane& lane = lanes_.at(id);
  RINGWAY_CHECK(lane.up);
  lane.up = false;
  control::LaneClosed closed;
  closed.set_lane(id.lane.value);
  closed.set_generation(lane.generation);
  closed.set_frames(lane.now.frames_in);
  closed.set_refused(lane.now.refused);
  lane.unsettled[lane.generation] = std::exchange(lane.now, {});
  return closed;
}

LaneLedger::Settled LaneLedger::OnClosed(PeerId other, const control::LaneClosed& closed) {
  Settled settled;
  const LinkId id{.other = other, .control = false, .lane = LaneId(closed.lane())};
  Lane& lane = lanes_[id];
  if (lane.up && lane.generation == closed.generation()) {
    settled.close = true;
    return settled;
  }
  const auto found = lane.unsettled.find(closed.generation());
  if (found == lane.unsettled.end()) {
    const bool older = closed.generation() <= lane.newest;
    lane.newest = std::max(lane.newest, closed.generation());
    if (closed.answer() || (older && RINGWAY_MUTANT(kForgetUnseenLanes))) return settled;
    settled.answer = closed;
    settled.answer->set_frames(0);
    settled.answer->set_refused(false);
    settled.answer->set_answer(true);
    return settled;
  }
  Traffic& traffic = found->second;
  for (const NumberedFrame& sent : traffic.sent) {
    const bool lost = sent.number >= closed.frames() && !RINGWAY_MUTANT(kForgetLostSegments);
    if (lost || RINGWAY_MUTANT(kTakeTwice)) settled.lost.push_back(sent.frame);
    if (closed.refused() && sent.number == closed.frames()) settled.refused = sent.frame;
  }
  lane.unsettled.erase(found);
  return settled;
}

std::size_t LaneLedger::KeptFrames() const {
  std::size_t kept = 0;
  for (const auto& [id, lane] : lanes_) kept += lane.now.sent.size();
  return kept;
}

void LaneLedger::Forget(PeerId other) {
  std::erase_if(lanes_, [other](const auto& entry) { return entry.first.other == other; });
}

}  // namespace ringway::links
