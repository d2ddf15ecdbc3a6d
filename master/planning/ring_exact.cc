#include "master/planning/ring_exact.h"

#include <algorithm>
#include <limits>

#include "proto/check.h"

namespace ringway {
namespace {

// Bit i is peer i + 1; peer 0 is in no set.
using PeerSet = std::uint32_t;

constexpr LinkCost kNoWay = std::numeric_limits<LinkCost>::max();

PeerSet Bit(std::size_t peer) { return PeerSet{1} << (peer - 1); }

PeerSet AllOf(const RingLinks& links) { return (PeerSet{1} << (links.size() - 1)) - 1; }

void CheckSize(const RingLinks& links) { RINGWAY_CHECK(links.size() >= 2 && links.size() <= kExactPeersMax); }

// Cost of the cheapest completion: from `at`, after the peers of a set, through all others to peer 0.
class WaysHome {
 public:
  WaysHome(const RingLinks& links, RateClass worst) : links_(links), worst_(worst) {
    cost_.assign(std::size_t{AllOf(links) + 1} * links.size(), kNoWay);
    for (PeerSet visited = AllOf(links); visited > 0; --visited) {
      for (std::size_t at = 1; at < links.size(); ++at) {
        if ((visited & Bit(at)) != 0) cost_[Index(visited, at)] = Best(visited, at);
      }
    }
  }

  // Returns the cost with `next` as the next peer, or back to peer 0 after all; kNoWay if impossible.
  LinkCost Via(PeerSet visited, std::size_t at, std::size_t next) const {
    if (links_.rate_class(at, next) > worst_) return kNoWay;
    const LinkCost rest = next == 0 ? 0 : cost_[Index(visited | Bit(next), next)];
    return rest == kNoWay ? kNoWay : links_.cost(at, next) + rest;
  }

  LinkCost Best(PeerSet visited, std::size_t at) const {
    if (visited == AllOf(links_)) return Via(visited, at, 0);
    LinkCost best = kNoWay;
    for (std::size_t next = 1; next < links_.size(); ++next) {
      if ((visited & Bit(next)) == 0) best = std::min(best, Via(visited, at, next));
    }
    return best;
  }

 private:
  std::size_t Index(PeerSet visited, std::size_t at) const { return visited * links_.size() + at; }

  const RingLinks& links_;
  RateClass worst_;
  std::vector<LinkCost> cost_;
};

}  // namespace

bool HasRing(const RingLinks& links, RateClass worst) {
  CheckSize(links);
  const PeerSet all = AllOf(links);
  std::vector<PeerSet> may_precede(links.size());  // peers with a good enough link to this one
  for (std::size_t to = 0; to < links.size(); ++to) {
    for (std::size_t from = 1; from < links.size(); ++from) {
      if (from != to && links.rate_class(from, to) <= worst) may_precede[to] |= Bit(from);
    }
  }
  std::vector<PeerSet> ends(all + 1);  // possible ends of paths from peer 0 through all peers of a set
  for (PeerSet visited = 1; visited <= all; ++visited) {
    for (std::size_t end = 1; end < links.size(); ++end) {
      if ((visited & Bit(end)) == 0) continue;
      const PeerSet before = visited & ~Bit(end);
      const bool reached = before == 0 ? links.rate_class(0, end) <= worst : (ends[before] & may_precede[end]) != 0;
      if (reached) ends[visited] |= Bit(end);
    }
  }
  return (ends[all] & may_precede[0]) != 0;
}

std::vector<std::uint32_t> CheapestRing(const RingLinks& links, RateClass worst) {
  CheckSize(links);
  const WaysHome ways(links, worst);
  std::vector<std::uint32_t> ring = {0};
  PeerSet visited = 0;
  while (ring.size() < links.size()) {
    const LinkCost best = ways.Best(visited, ring.back());
    RINGWAY_CHECK(best != kNoWay);
    std::uint32_t next = 1;  // the lowest peer of least cost
    while ((visited & Bit(next)) != 0 || ways.Via(visited, ring.back(), next) != best) ++next;
    ring.push_back(next);
    visited |= Bit(next);
  }
  return ring;
}

}  // namespace ringway
