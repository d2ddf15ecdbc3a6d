// The first rank of a view decides whose inputs are in an operation with a quorum or weights:
//
//   offers --as many as the quorum: the grace begins--> --it is over, or nobody else can come in time--> decided
//
// A rank that an operation went on without cannot come in time for the next one of that channel before it has submitted
// the first: nothing waits for it. So a trainer that hangs costs one grace, and not one an operation.
//
// Offers count for the view in force. Bounded by how far ahead of the own submissions a name may be
// (OpTable::kAheadMax), which the caller checks. Pure.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "daemon/agreement/view.h"
#include "daemon/collective/input_set.h"
#include "proto/clock.h"
#include "proto/ids.h"
#include "proto/segment_header.h"

namespace ringway::agreement {

class InputQuorum {
 public:
  struct Offer {
    Descriptor descriptor;
    double weight = 1;
    Duration grace{};
  };
  struct Decision {
    OpName name;
    Descriptor descriptor;
    collective::InputSet inputs;  // one of them at least is in
  };

  void OnView();
  // The input of `from` is whole. REQUIRES: a member; `name` is not decided in this view.
  void Add(PeerId from, const OpName& name, const Offer& offer);
  // `from` has submitted what was decided without it.
  void OnLate(PeerId from, const OpName& name);
  // Those that are to be decided now, each once.
  std::vector<Decision> Decide(const View& view, TimePoint now);

 private:
  struct Open {
    Offer first;
    std::map<PeerId, double> weights;          // of those that are in
    Duration grace{};                          // the longest that one asks for
    bool differs = false;                      // descriptors do: all learn so at once
    std::optional<TimePoint> is_enough_since;  // the quorum is there
  };
  bool IsAwaited(PeerId peer, const OpName& name, const Open& open) const;
  bool IsDue(const OpName& name, Open& open, const View& view, TimePoint now) const;

  std::map<OpName, Open> open_;
  std::map<std::pair<PeerId, ChannelId>, std::uint64_t> missed_;  // the newest that went on without the peer
};

}  // namespace ringway::agreement
