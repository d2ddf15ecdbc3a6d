// Ranks whose trainers hold others up: they have submitted nothing for long, while this rank is ahead of them.
//
// Heartbeats say how far each trainer has submitted. A rank lags as long as this one has submitted an operation that it
// has not; each submission of its own, on any channel, begins its time anew, and so does the loss of a rank, which it
// may have waited for. While a view is stopped no time passes, for who waits for the next one cannot submit. An
// operation that fails by its deadline changes nothing: its rank still lags.
//
// Pure. Times are the owner's.
#pragma once

#include <map>
#include <optional>

#include "daemon/agreement/view.h"
#include "proto/clock.h"
#include "proto/ids.h"

namespace ringway::agreement {

class Laggards {
 public:
  void OnStop(TimePoint now);
  void OnView(const View& view, TimePoint now);
  // For all ranks: this process did not run for a while, as the others may not have, or they have been blamed.
  void BeginAnew(TimePoint now);
  // A heartbeat: its next sequence numbers beside this rank's own.
  void Heard(PeerId from, ChannelSeqs theirs, const ChannelSeqs& own, TimePoint now);
  // Whether all ranks that were heard have submitted it.
  bool AllHave(const OpName& op) const;
  // Whether `rank` has, as far as was heard.
  bool Has(PeerId rank, const OpName& op) const;
  // Whether its trainer has not submitted `op`, nor anything else for at least `limit`.
  bool HoldsUp(const OpName& op, PeerId rank, Duration limit, TimePoint now) const;

 private:
  struct Rank {
    bool Has(const OpName& op) const;
    ChannelSeqs next;
    std::optional<TimePoint> lags_since;
  };
  std::map<PeerId, Rank> ranks_;
  std::optional<TimePoint> stopped_;
};

}  // namespace ringway::agreement
