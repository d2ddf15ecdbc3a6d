// Trainers that write to memory of an operation in flight: how it is noticed (buffer_watch.h), and what follows.
//
//   a segment is to leave while the peer is cautious     from a copy that is compared with its hash
//   a payload comes meanwhile                            by scratch, verified before it is put into the output
//   a copy, a refused source or a failed target differs  the trainer wrote to it: the listener is notified, once
//
// Memory that only the daemon writes to is never judged.
//
// Ownership: the peer's.
#pragma once

#include <cstdint>
#include <string>

#include "daemon/collective/executor.h"
#include "daemon/links/lane_ledger.h"
#include "daemon/transfer/attempt.h"
#include "daemon/transfer/buffer_watch.h"
#include "proto/clock.h"

namespace ringway::transfer {

class BufferGuard {
 public:
  class Listener {
   public:
    // The trainer wrote to the `buffer`, "input" or "output", of `what`. From here on nothing is sent.
    virtual void OnModified(const std::string& what, const std::string& buffer) = 0;

   protected:
    ~Listener() = default;
  };

  // All outlive it. `now`: of the newest event.
  BufferGuard(const TimePoint& now, const Attempts& attempts, Listener& listener)
      : now_(now), attempts_(attempts), listener_(listener) {}
  BufferGuard(const BufferGuard&) = delete;
  BufferGuard& operator=(const BufferGuard&) = delete;

  // ---- out
  // What to send instead of the source; null: the source.
  Attempt::Copy CautiousCopy(const Attempt& attempt, const collective::Ready& ready) const;
  // The other end says that the segment failed its checksum.
  void OnRefused(const links::SentFrame& frame);

  // ---- in. REQUIRES: the attempt is live.
  // Straight into the output, unless its trainer may be writing there.
  void ChooseTarget(const Attempt& attempt, collective::Executor::Claim& claim);
  // Its payload fails its checksum.
  void OnFailedPayload(const Attempt& attempt, const collective::Executor::Claim& claim);
  // REQUIRES: its payload has been verified and is not accepted yet.
  void CheckTarget(const Attempt& attempt, const collective::Executor::Claim& claim);

  void OnModified(const Attempt& attempt, const std::string& buffer);
  bool modified() const { return modified_; }

 private:
  static BufferWatch::Place PlaceOf(const Attempt& attempt, const collective::Executor::Claim& claim) {
    return {.attempt = attempt.number(), .arrival = claim.arrival, .segment = claim.segment};
  }

  const TimePoint& now_;
  const Attempts& attempts_;
  Listener& listener_;
  BufferWatch watch_;
  bool modified_ = false;
};

}  // namespace ringway::transfer
