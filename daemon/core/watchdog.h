// Finds operations that stand still although nobody is slow. No healthy cause is left then, so the fault is ours: the
// view is aborted and its operations start anew. What would have been a hang is a retry, an error in the log and a
// count.
//
// With its heartbeats each rank tells the others how far its trainer has submitted, and for how long nothing has moved
// at it. An operation is stuck if every rank has submitted it and for `patience` nothing has moved at any of them. It
// counts as moving whatever arrives, leaves, is staged, copied, told, breaks or is repaired; a rank whose trainer is
// still staging an input says that it moves. A frozen view waits for the master, which is its own matter.
//
// Each time it barks the patience doubles, until an operation succeeds: a network on which not one segment arrives in
// that time gets more of it.
//
// Pure. Times are the owner's.
#pragma once

#include <cstdint>
#include <map>
#include <span>

#include "daemon/core/view.h"
#include "proto/clock.h"
#include "proto/ids.h"

namespace ringway::core {

class Watchdog {
 public:
  static constexpr Duration kPatience = std::chrono::seconds(60);
  static constexpr Duration kPatienceMax = std::chrono::hours(1);

  explicit Watchdog(Duration patience) : patience_(patience), first_patience_(patience) {}

  // Something moved at this rank.
  void Moved(TimePoint now) { moved_ = now; }
  Duration StillFor(TimePoint now) const { return now - moved_; }
  // What another rank's heartbeat says: nothing has moved there for `still`, and these are its next sequence numbers.
  void Heard(PeerId from, Duration still, ChannelSeqs next) { pulses_[from] = {still, std::move(next)}; }
  // What was heard belongs to the view before.
  void OnView(TimePoint now);

  // Whether it is time to bark at an operation that this rank waits for.
  bool IsStuck(const OpName& op, std::span<const PeerId> members, PeerId self, TimePoint now) const;
  void Bark(TimePoint now);
  // An operation has succeeded.
  void Calm() { patience_ = first_patience_; }

 private:
  struct Pulse {
    Duration still{};
    ChannelSeqs next;
  };

  Duration patience_;
  const Duration first_patience_;
  TimePoint moved_{};
  std::map<PeerId, Pulse> pulses_;
};

}  // namespace ringway::core
