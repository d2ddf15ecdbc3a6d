// Measurements of the paths between the peers of one group, as the daemons report them: the source of the planner's
// matrix. Pure.
//
//   round trips  the minimum of both ends' values, for both directions
//   rates        directed, by the sender. Impossible values are ignored
//   hosts        peers whose addresses have the same host are on one host, which has one uplink, one downlink and one
//                path to another host: the best that any of its peers has shown; unless they are further apart than one
//                host is: then an address translator has the address
//   sites        all pairs from one site to another get the best rate that any of them has shown, bounded by the best
//                rates that the sender has shown to anybody and the receiver from anybody: pairs that measure at the
//                same time through one uplink see a part of it each, and different parts. So a path that is slow for
//                one pair of hosts only is overlooked if its sites have more
//   noise        rates measured beside live traffic scatter by a quarter, so rates that differ by less are equal, with
//                their median: a plan must not depend on which of two equal paths had a busy moment
//   site uplinks as the options of the site's daemons say; the lowest if they differ
//
// A value; not synchronized. Bounded by the pairs of known peers, which the caller checks.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "master/planning/host_rates.h"
#include "master/planning/path_matrix.h"
#include "proto/clock.h"
#include "proto/control.pb.h"
#include "proto/ids.h"

namespace ringway {

class PathBook {
 public:
  static constexpr std::uint64_t kBytesPerSecondMax = 1'000'000'000'000;
  static constexpr Duration kRoundTripMax = std::chrono::minutes(1);

  // All return false, and change nothing, for values that are 0, beyond the bound, or unchanged.
  bool SetRoundTrip(PeerId from, PeerId to, Duration round_trip);
  bool SetRate(PeerId from, PeerId to, std::uint64_t bytes_per_second);
  // Rate of the peer to all others together, where that was the bottleneck.
  bool SetUplink(PeerId peer, std::uint64_t bytes_per_second);

  // The path was measured now, whatever came of it.
  void NoteMeasured(PeerId from, PeerId to, TimePoint now) { measured_[{from, to}] = now; }
  // A path as its sender has reported it.
  struct Facts {
    Duration round_trip{};                 // 0: not known
    std::uint64_t bytes_per_second = 0;    // likewise
    std::optional<TimePoint> measured_at;  // the newest report of the rate
  };
  Facts FactsOf(PeerId from, PeerId to) const;

  // Returns whether the rate of any path is known.
  bool knows_rates() const { return !rates_.empty(); }

  void Forget(PeerId peer);

  // Returns the matrix for members in rank order. Sites are numbered in the order of their first member. Rates that no
  // peer has reported are those `remembered` of its daemon.
  PathMatrix Between(const std::vector<control::PeerInfo>& members, const HostRates& remembered = {}) const;

 private:
  using Pair = std::pair<PeerId, PeerId>;

  std::map<Pair, Duration> round_trips_;
  std::map<Pair, std::uint64_t> rates_;
  std::map<PeerId, std::uint64_t> uplinks_;
  std::map<Pair, TimePoint> measured_;
};

}  // namespace ringway
