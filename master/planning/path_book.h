// What the daemons have said of the paths between the peers of one group: where the planner's matrix comes from. Pure.
//
// Round trips count for both directions: of the two ends' the shorter. Rates are directed, from the sender's side. What
// cannot be is refused here, so that the matrix never meets it.
//
// From one site to another all peers have the best rate that any of their pairs has shown, as far as the sender has
// shown it to anybody: those who measure at the same time through one way out see a part of it each, and not the same
// part. So a path that is slow for one pair of hosts only is overlooked where their sites have more.
//
// What is measured beside live traffic scatters by a quarter and more. So rates that are within a factor of two are
// taken for alike, with their median: a plan must not hang on which of two equal paths had a busy moment.
//
// A value; not synchronized. Bounded by the pairs of the peers that are asked about: the caller checks who they are.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "master/planning/path_matrix.h"
#include "proto/clock.h"
#include "proto/control.pb.h"
#include "proto/ids.h"

namespace ringway {

class PathBook {
 public:
  static constexpr std::uint64_t kBytesPerSecondMax = 1'000'000'000'000;
  static constexpr Duration kRoundTripMax = std::chrono::minutes(1);

  // All give false, and change nothing, for what is 0, beyond the bound, or what was said before.
  bool SetRoundTrip(PeerId from, PeerId to, Duration round_trip);
  bool SetRate(PeerId from, PeerId to, std::uint64_t bytes_per_second);
  // What the peer sends to all others together, where that was the limit.
  bool SetUplink(PeerId peer, std::uint64_t bytes_per_second);

  // Whether the rate of any path is known.
  bool knows_rates() const { return !rates_.empty(); }

  void Forget(PeerId peer);

  // For members in rank order. Sites are numbered in the order of their first member.
  PathMatrix Between(const std::vector<control::PeerInfo>& members) const;

 private:
  using Pair = std::pair<PeerId, PeerId>;

  std::map<Pair, Duration> round_trips_;
  std::map<Pair, std::uint64_t> rates_;
  std::map<PeerId, std::uint64_t> uplinks_;
};

}  // namespace ringway
