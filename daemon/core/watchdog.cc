#include "daemon/core/watchdog.h"

#include <algorithm>

#include "proto/mutation.h"

namespace ringway::core {

void Watchdog::OnView(TimePoint now) {
  pulses_.clear();
  moved_ = now;
}

// Heartbeats are older than what this rank knows of itself: half of its patience is enough of the others.
bool Watchdog::IsStuck(const OpName& op, std::span<const PeerId> members, PeerId self, TimePoint now) const {
  if (StillFor(now) < patience_) return false;
  if (RINGWAY_MUTANT(kBarkAlone)) return true;
  return std::all_of(members.begin(), members.end(), [&](PeerId member) {
    if (member == self) return true;
    const auto pulse = pulses_.find(member);
    if (pulse == pulses_.end() || pulse->second.still < patience_ / 2) return false;
    const auto next = pulse->second.next.find(op.channel);
    return next != pulse->second.next.end() && next->second > op.seq;
  });
}

void Watchdog::Bark(TimePoint now) {
  patience_ = std::min(2 * patience_, kPatienceMax);
  moved_ = now;
}

}  // namespace ringway::core
