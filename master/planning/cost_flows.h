// Load of concurrent flows on paths, uplinks and downlinks, and when they arrive; time of reductions along trees and
// rings. Pure; part of cost_model, whose header states the formulas.
//
// `paths`: without unknowns; must outlive its users. Units: seconds, bytes.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "master/planning/path_matrix.h"

namespace ringway {

// Flows that start together: bytes on each path, uplink, downlink and site uplink.
class FlowLoad {
 public:
  explicit FlowLoad(const PathMatrix& paths);

  void Add(std::uint32_t from, std::uint32_t to, double bytes);

  // When the last byte of a path arrives, if everything that it crosses is busy throughout.
  double Arrival(std::uint32_t from, std::uint32_t to) const;
  // When the last byte of all flows arrives.
  double LastArrival() const;

 private:
  const PathMatrix& paths_;
  std::vector<double> uplink_bytes_;
  std::vector<double> downlink_bytes_;
  std::vector<double> path_bytes_;
  std::map<std::uint32_t, double> site_bytes_;  // leaving a site
};

// A chunk is reduced up to the root and then copied down.
struct ReduceTree {
  struct Branch {
    std::uint32_t child = 0;
    std::uint32_t parent = 0;
  };
  std::uint32_t root = 0;
  double bytes = 0;
  std::vector<Branch> branches;  // parents before their children, siblings in the order in which they are sent to
};

ReduceTree StarTree(std::uint32_t root, std::size_t peers, double bytes);
ReduceTree BinomialTree(std::uint32_t root, std::size_t peers, double bytes);

// The hierarchical schedule of collective/schedule.h with equal chunks: of each chunk one member a site is the leader,
// and one of the leaders owns it. `ring`: a permutation of the peers; sites are ordered by their first peer on it.
std::vector<ReduceTree> SiteTrees(const PathMatrix& paths, std::span<const std::uint32_t> ring, double bytes);

// One chunk a tree, all at once, with the segment size of the longest.
double TreesSeconds(const PathMatrix& paths, std::span<const ReduceTree> trees, std::uint64_t segment_bytes_max);

// Segment size for the longest chunk, as collective/grid.h computes it for `segment_bytes_max` > 0.
double SegmentBytes(double chunk, std::uint64_t segment_bytes_max);

// Number of flows that leave each site.
class SiteExits {
 public:
  explicit SiteExits(const PathMatrix& paths) : paths_(paths) {}
  void Add(std::uint32_t from, std::uint32_t to);
  // An equal share of the site uplink; infinite if the flow stays inside.
  double ShareOf(std::uint32_t from, std::uint32_t to) const;

 private:
  const PathMatrix& paths_;
  std::map<std::uint32_t, double> flows_;
};

struct RingHop {
  double delay = 0;
  double rate = 0;
};

// Time of a ring schedule on these hops, in ring order. REQUIRES: at least two hops.
double RingWalkSeconds(std::span<const RingHop> hops, double chunk, double segment);

}  // namespace ringway
