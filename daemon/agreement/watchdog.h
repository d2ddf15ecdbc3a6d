// Finds operations that stand still although nobody is slow. No healthy cause is left then, so the fault is ours: the
// view is aborted and its operations start anew. What would have been a hang is a retry, an error in the log and a
// count.
//
// With its heartbeats each rank reports to the others how far its trainer has submitted, and for how long nothing has
// moved at it. An operation is stuck if every rank has submitted it and for `patience` nothing has moved at any of
// them. It counts as moving whatever arrives, leaves, is staged, copied, reported, breaks or is repaired; a rank whose
// trainer is still staging an input says that it moves. A frozen view waits for the master, which is its own matter.
//
// Each time it barks the patience doubles, and so does that of all who hear of it, until an operation as large
// succeeds: a network on which nothing arrives in that time gets more of it.
//
// Pure. Times are the owner's.
#pragma once

#include <cstdint>
#include <map>
#include <span>

#include "daemon/agreement/view.h"
#include "proto/clock.h"
#include "proto/ids.h"

namespace ringway::agreement {

class Watchdog {
 public:
  static constexpr Duration kPatience = std::chrono::seconds(60);
  static constexpr Duration kPatienceMax = std::chrono::hours(1);

  explicit Watchdog(Duration patience) : patience_(patience), first_patience_(patience) {}

  // Something moved at this rank.
  void Moved(TimePoint now) { moved_ = now; }
  Duration StillFor(TimePoint now) const { return now - moved_; }
  // The contents of another rank's heartbeat.
  struct Pulse {
    Duration still{};     // nothing has moved there
    Duration patience{};  // its own
    ChannelSeqs next;     // its next sequence numbers
  };
  void Heard(PeerId from, Pulse pulse);
  // Forgets the heartbeats, which belong to the previous view.
  void OnView(TimePoint now);

  // Returns whether it is time to fire for an operation that this rank waits for.
  bool IsStuck(const OpName& op, std::span<const PeerId> members, PeerId self, TimePoint now) const;
  // At one of so many bytes.
  void Fire(std::uint64_t bytes, TimePoint now);
  // An operation of so many bytes has succeeded.
  void Reset(std::uint64_t bytes);
  Duration patience() const { return patience_; }

 private:
  Duration patience_;
  const Duration first_patience_;
  std::uint64_t stuck_bytes_ = 0;  // of the largest operation that it barked at
  TimePoint moved_{};
  std::map<PeerId, Pulse> pulses_;
};

}  // namespace ringway::agreement
