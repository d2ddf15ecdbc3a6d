// What flows between peers load and when they arrive; how long reductions along trees and rings take. Pure; a part of
// cost_model, whose header states the formulas.
//
// `paths`: without unknowns; must outlive what refers to it. Units: seconds, bytes.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "master/planning/path_matrix.h"

namespace ringway {

// All bytes that start together, by the paths, uplinks, downlinks and sites' uplinks that they load.
class FlowLoad {
 public:
  explicit FlowLoad(const PathMatrix& paths);

  void Add(std::uint32_t from, std::uint32_t to, double bytes);

  // Of the last byte of a path, if whatever it crosses works without a pause.
  double Arrival(std::uint32_t from, std::uint32_t to) const;
  // Of the last byte of all.
  double LastArrival() const;

 private:
  const PathMatrix& paths_;
  std::vector<double> uplink_bytes_;
  std::vector<double> downlink_bytes_;
  std::vector<double> path_bytes_;
  std::map<std::uint32_t, double> site_bytes_;  // that leave a site
};

// A chunk is combined on its way up to the root and then copied down.
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

// Of each chunk one member a site is in charge, and one of these combines it for all: as collective/schedule.h does it
// for the hierarchical schedule, all of one size. `ring`: a permutation of the peers; sites come in the order of their
// first on it.
std::vector<ReduceTree> SiteTrees(const PathMatrix& paths, std::span<const std::uint32_t> ring, double bytes);

// One chunk a tree, all at once, cut as the longest is.
double TreesSeconds(const PathMatrix& paths, std::span<const ReduceTree> trees, std::uint64_t segment_bytes_max);

// Into which the longest chunk is cut, as collective/grid.h does it for `segment_bytes_max` > 0.
double SegmentBytes(double chunk, std::uint64_t segment_bytes_max);

// How many flows leave each site for another.
class SiteExits {
 public:
  explicit SiteExits(const PathMatrix& paths) : paths_(paths) {}
  void Add(std::uint32_t from, std::uint32_t to);
  // An equal share of what its site sends, or no limit where the flow stays inside.
  double ShareOf(std::uint32_t from, std::uint32_t to) const;

 private:
  const PathMatrix& paths_;
  std::map<std::uint32_t, double> flows_;
};

struct RingHop {
  double delay = 0;
  double rate = 0;
};

// Once around, in order. REQUIRES: two hops or more.
double RingWalkSeconds(std::span<const RingHop> hops, double chunk, double segment);

}  // namespace ringway
