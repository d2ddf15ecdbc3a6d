#include "master/planning/cost_flows.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "proto/check.h"

namespace ringway {
namespace {

constexpr double kNotUsed = -1;  // a path that carries an empty buffer is used

// When the last segment of a chunk is back at all peers; `up`: load of the reduce half of all trees. `segment`: bytes.
double LastSegmentSeconds(const PathMatrix& paths, const ReduceTree& tree, const FlowLoad& up, double segment) {
  segment = std::min(segment, tree.bytes);
  std::vector<double> done(paths.size());  // up: when a peer has combined it; down: when it has it back
  for (auto branch = tree.branches.rbegin(); branch != tree.branches.rend(); ++branch) {
    const auto [child, parent] = *branch;
    const double forwarded = done[child] + segment / paths.LinkRate(child, parent) + paths.delay(child, parent);
    done[parent] = std::max({done[parent], forwarded, up.Arrival(child, parent)});
  }
  std::vector<double> uplink_free(paths.size());
  uplink_free[tree.root] = done[tree.root];
  double last = done[tree.root];
  for (const auto [child, parent] : tree.branches) {
    uplink_free[parent] += segment / paths.uplink(parent);
    const double sent = std::max(uplink_free[parent], done[parent] + segment / paths.LinkRate(parent, child));
    done[child] = uplink_free[child] = sent + paths.delay(parent, child);
    last = std::max(last, done[child]);
  }
  return last;
}

}  // namespace

FlowLoad::FlowLoad(const PathMatrix& paths)
    : paths_(paths),
      uplink_bytes_(paths.size()),
      downlink_bytes_(paths.size()),
      path_bytes_(paths.size() * paths.size(), kNotUsed) {}

void FlowLoad::Add(std::uint32_t from, std::uint32_t to, double bytes) {
  uplink_bytes_[from] += bytes;
  downlink_bytes_[to] += bytes;
  if (paths_.crosses(from, to)) site_bytes_[paths_.site(from)] += bytes;
  double& on_path = path_bytes_[from * paths_.size() + to];
  on_path = std::max(on_path, 0.0) + bytes;
}

double FlowLoad::Arrival(std::uint32_t from, std::uint32_t to) const {
  const double busy = std::max({uplink_bytes_[from] / paths_.uplink(from), downlink_bytes_[to] / paths_.downlink(to),
                                path_bytes_[from * paths_.size() + to] / paths_.rate(from, to)});
  if (!paths_.crosses(from, to)) return busy + paths_.delay(from, to);
  const double leaving = site_bytes_.at(paths_.site(from)) / paths_.site_uplink(from);
  return std::max(busy, leaving) + paths_.delay(from, to);
}

double FlowLoad::LastArrival() const {
  double last = 0;
  ForEachPath(paths_.size(), [&](std::uint32_t from, std::uint32_t to) {
    if (path_bytes_[from * paths_.size() + to] != kNotUsed) last = std::max(last, Arrival(from, to));
  });
  return last;
}

ReduceTree StarTree(std::uint32_t root, std::size_t peers, double bytes) {
  ReduceTree tree{.root = root, .bytes = bytes, .branches = {}};
  for (std::uint32_t peer = 0; peer < peers; ++peer) {
    if (peer != root) tree.branches.push_back({.child = peer, .parent = root});
  }
  return tree;
}

ReduceTree BinomialTree(std::uint32_t root, std::size_t peers, double bytes) {
  const auto count = static_cast<std::uint32_t>(peers);
  ReduceTree tree{.root = root, .bytes = bytes, .branches = {}};
  // Far children first: they forward the most.
  for (std::uint32_t bit = std::bit_floor(count); bit > 0; bit /= 2) {
    for (std::uint32_t offset = bit; offset < count; offset += 2 * bit) {
      tree.branches.push_back({.child = (root + offset) % count, .parent = (root + offset - bit) % count});
    }
  }
  return tree;
}

std::vector<ReduceTree> SiteTrees(const PathMatrix& paths, std::span<const std::uint32_t> ring, double bytes) {
  std::vector<std::vector<std::uint32_t>> sites;
  std::map<std::uint32_t, std::size_t> place;
  std::size_t largest = 0;
  for (const std::uint32_t peer : ring) {
    const auto [found, is_new] = place.try_emplace(paths.site(peer), sites.size());
    if (is_new) sites.emplace_back();
    sites[found->second].push_back(peer);
    largest = std::max(largest, sites[found->second].size());
  }
  std::vector<ReduceTree> trees;
  const std::size_t chunks = sites.size() * largest;
  for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
    const auto in_charge = [&](const auto& site) { return site[chunk / sites.size() % site.size()]; };
    ReduceTree& tree = trees.emplace_back();
    tree.bytes = bytes / static_cast<double>(chunks);
    tree.root = in_charge(sites[chunk % sites.size()]);
    for (const auto& site : sites) {
      if (in_charge(site) != tree.root) tree.branches.push_back({.child = in_charge(site), .parent = tree.root});
    }
    for (const auto& site : sites) {
      for (const std::uint32_t member : site) {
        if (member != in_charge(site)) tree.branches.push_back({.child = member, .parent = in_charge(site)});
      }
    }
  }
  return trees;
}

void SiteExits::Add(std::uint32_t from, std::uint32_t to) {
  if (paths_.crosses(from, to)) ++flows_[paths_.site(from)];
}

double SiteExits::ShareOf(std::uint32_t from, std::uint32_t to) const {
  if (!paths_.crosses(from, to)) return std::numeric_limits<double>::infinity();
  return paths_.site_uplink(from) / flows_.at(paths_.site(from));
}

double TreesSeconds(const PathMatrix& paths, std::span<const ReduceTree> trees, std::uint64_t segment_bytes_max) {
  FlowLoad up(paths);
  FlowLoad all(paths);
  double longest = 0;
  for (const ReduceTree& tree : trees) {
    longest = std::max(longest, tree.bytes);
    for (const auto [child, parent] : tree.branches) {
      up.Add(child, parent, tree.bytes);
      all.Add(child, parent, tree.bytes);
      all.Add(parent, child, tree.bytes);
    }
  }
  const double segment = SegmentBytes(longest, segment_bytes_max);
  double seconds = all.LastArrival();
  for (const ReduceTree& tree : trees) seconds = std::max(seconds, LastSegmentSeconds(paths, tree, up, segment));
  return seconds;
}

double SegmentBytes(double chunk, std::uint64_t segment_bytes_max) {
  const auto largest = static_cast<double>(segment_bytes_max);
  return std::min(chunk, std::clamp(chunk / 4, std::min(16.0 * 1024, largest), largest));
}

double RingWalkSeconds(std::span<const RingHop> hops, double chunk, double segment) {
  RINGWAY_CHECK(hops.size() >= 2);
  const std::size_t steps = 2 * (hops.size() - 1);
  double longest = 0;
  for (std::size_t first = 0; first < hops.size(); ++first) {
    double heads = 0;       // of the links passed
    double chunk_time = 0;  // on the slowest link visited
    for (std::size_t passed = 0; passed < steps; ++passed) {
      const RingHop& hop = hops[(first + passed) % hops.size()];
      chunk_time = std::max(chunk_time, chunk / hop.rate);
      longest = std::max(longest, heads + static_cast<double>(steps - passed) * chunk_time + hop.delay);
      heads += hop.delay + segment / hop.rate;
    }
  }
  return longest;
}

}  // namespace ringway
