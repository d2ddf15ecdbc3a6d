#include "daemon/links/dial_tracker.h"

namespace ringway::links {

std::uint64_t DialTracker::Begin(const Dial& dial, std::size_t lanes) {
  std::erase_if(dials_, [&](const auto& entry) {
    return entry.second.other == dial.other && entry.second.control == dial.control;
  });
  dials_.emplace(next_, OpenDial{.other = dial.other,
                                 .control = dial.control,
                                 .generation = dial.generation,
                                 .lanes = dial.control ? 0 : lanes});
  return next_++;
}

void DialTracker::Close(PeerId other) {
  for (auto& [serial, dial] : dials_) dial.closed = dial.closed || dial.other == other;
}

DialTracker::Verdict DialTracker::OnAnswer(std::uint64_t serial, const Answer& answer) {
  const auto found = dials_.find(serial);
  if (found == dials_.end()) return {};
  OpenDial& open = found->second;
  open.lanes -= std::min(open.lanes, answer.links);
  open.stood = open.stood || answer.links > 0;
  Verdict verdict{.take = !open.closed,
                  .report = answer.last && (open.closed || !answer.failure.ok()),
                  .why = answer.failure,
                  .other = open.other,
                  .control = open.control,
                  .generation = open.generation};
  if (open.closed && answer.failure.ok()) {
    verdict.why = {Code::kPeerUnreachable, "the link was given up while it was dialled"};
  } else if (open.stood && !answer.failure.ok()) {
    // Other links came up, so the peer exists, whatever it answered to this one.
    verdict.why = {Code::kPeerUnreachable, answer.failure.text()};
  }
  if (answer.last) dials_.erase(found);
  return verdict;
}

std::size_t DialTracker::lanes() const {
  std::size_t lanes = 0;
  for (const auto& [serial, dial] : dials_) lanes += dial.lanes;
  return lanes;
}

}  // namespace ringway::links
