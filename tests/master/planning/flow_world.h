// Networks of hosts and what a schedule takes on them, by a fluid simulation: the planner's judge. Knows nothing of the
// planner's prices.
//
// Units: seconds, bytes, bytes per second.
//
// Each ordered pair of ranks sends the segments of its transfers in the order in which they become ready (an input at
// once; a sum or a finished chunk as soon as that segment of all that it is made of has arrived). Pairs that have
// something to send get max-min fair rates of the pipes that they use:
//
//   inside a host      the host's memory
//   between hosts      the host's uplink, the path of the two hosts, the other host's downlink
//   between sites      also the uplink of the sender's site, where there is one
#pragma once

#include <ringway/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "master/planning/routes.h"
#include "proto/collective/schedule.h"

namespace ringway {

inline constexpr double kMemoryRate = 4e9;
inline constexpr double kMemoryDelay = 20e-6;

// Rates of 0: no limit.
struct FlowWorld {
  struct Host {
    double uplink = 0;
    double downlink = 0;
    std::uint32_t site = 0;
    std::uint32_t peers = 1;
  };
  std::vector<Host> hosts;
  std::vector<double> site_uplinks;
  std::vector<std::vector<double>> delays;  // one way, from host to host
  std::vector<std::vector<double>> rates;   // of the path alone

  // Ranks are hosts' peers, one host after the other.
  std::vector<std::uint32_t> HostsOfRanks() const;
  // Returns the rate of a single flow between two hosts.
  double LoneRate(std::uint32_t from, std::uint32_t to) const;
  std::string Text() const;
};

// 1 to 12 hosts with one or several peers each, from a seed. At least two ranks. A host's downlink is no less than its
// uplink: nobody measures it, and plans count on that. Hosts of one site go the same ways.
FlowWorld RandomFlowWorld(std::uint64_t seed);

struct FlowOp {
  Algorithm algorithm = Algorithm::kRing;
  collective::Routes routes;
  std::uint64_t elements = 0;  // of f32
  Codec codec = Codec::kNone;
};

// Returns when the last rank has its result, or `limit` if that is later.
double FlowSeconds(const FlowWorld& world, const FlowOp& op, double limit);

}  // namespace ringway
