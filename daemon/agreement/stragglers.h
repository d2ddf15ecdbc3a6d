// Ranks whose trainers hold others up: they have submitted nothing for long, while this rank is ahead of them.
//
// Heartbeats say how far each trainer has submitted. A rank lags as long as this one has submitted an operation that it
// has not, or a send or recv whose other end is its; each submission of its own, of any kind, begins its time anew, and
// so do a message of its that needs time alone and the loss of a rank, which it may have waited for. While a view is
// stopped no time passes, for who waits for the next one cannot submit. An operation that fails by its deadline changes
// nothing: its rank still lags.
//
// Pure. Times are the owner's.
#pragma once

#include <map>
#include <optional>

#include "daemon/agreement/view.h"
#include "proto/clock.h"
#include "proto/ids.h"

namespace ringway::agreement {

// Records how far a trainer has submitted.
struct Progress {
  ChannelSeqs next;            // operations
  std::uint64_t messages = 0;  // sends and recvs
  bool runs = false;           // one of them needs time alone
  bool stalls = false;         // the copying of what one of them sends stands still
  std::uint64_t total() const;
  friend bool operator==(const Progress&, const Progress&) = default;
};

class Stragglers {
 public:
  void OnStop(TimePoint now);
  void OnView(const View& view, TimePoint now);
  // Restarts the timers of all ranks: this process did not run for a while, as the others may not have, or they have
  // been blamed.
  void BeginAnew(TimePoint now);
  // A heartbeat, beside this rank's own operations. `awaited`: a message of this rank waits for its end.
  void Heard(PeerId from, Progress theirs, const ChannelSeqs& own, bool awaited, TimePoint now);
  // Returns whether all ranks that were heard have submitted it.
  bool AllHave(const OpName& op) const;
  // Returns whether `rank` has, as far as was heard.
  bool Has(PeerId rank, const OpName& op) const;
  // Returns whether it lags, and its trainer has submitted nothing for at least `limit`.
  bool HoldsUp(PeerId rank, Duration limit, TimePoint now) const;
  // The same, and it has not submitted `op`.
  bool HoldsUp(const OpName& op, PeerId rank, Duration limit, TimePoint now) const;
  // Returns the rank's progress as last reported.
  Progress ProgressOf(PeerId rank) const;

 private:
  struct Rank {
    bool Has(const OpName& op) const;
    Progress progress;
    std::optional<TimePoint> lags_since;
  };
  std::map<PeerId, Rank> ranks_;
  std::optional<TimePoint> stopped_;
};

}  // namespace ringway::agreement
