#include "daemon/agreement/watchdog.h"

#include <algorithm>

#include "proto/mutation.h"

namespace ringway::agreement {

void Watchdog::OnView(TimePoint now) {
  pulses_.clear();
  moved_ = now;
}

void Watchdog::Heard(PeerId from, Pulse pulse) {
  patience_ = std::max(patience_, std::min(pulse.patience, kPatienceMax));
  pulses_[from] = std::move(pulse);
}

// Heartbeats are older than what this rank knows of itself: half of its patience is enough of the others. Who has not
// said one in this view may be frozen, and wait for a master that is cut off.
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

void Watchdog::Fire(std::uint64_t bytes, TimePoint now) {
  patience_ = std::min(2 * patience_, kPatienceMax);
  stuck_bytes_ = std::max(stuck_bytes_, bytes);
  moved_ = now;
}

void Watchdog::Reset(std::uint64_t bytes) {
  if (bytes < stuck_bytes_) return;
  patience_ = first_patience_;
  stuck_bytes_ = 0;
}

}  // namespace ringway::agreement
