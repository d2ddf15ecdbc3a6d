#include "master/planning/route_shares.h"

#include <algorithm>
#include <map>
#include <utility>

#include "proto/collective/shares.h"

namespace ringway {
namespace {

using Shares = std::vector<std::uint32_t>;

constexpr double kSharesGainRatio = 1.1;
constexpr std::uint32_t kStepFirst = kWholeShare / 16;
constexpr std::uint32_t kStepLast = kWholeShare / 4096;
constexpr std::size_t kMovesPerPeer = 4;  // of one step: bounds the search

Shares EqualShares(std::size_t peers) {
  const auto count = static_cast<std::uint32_t>(peers);
  Shares shares(peers, kWholeShare / count);
  for (std::uint32_t rest = 0; rest < kWholeShare % count; ++rest) ++shares[rest];
  return shares;
}

// Peers that share an uplink: those of a host, or of a site.
struct Part {
  double members = 0;
  double share = 0;  // of the buffer, that they own together
};

// Sent by a part of `count` peers to the others, in units of the buffer; received as much.
double Sent(const Part& part, double count) {
  return part.members * (1 - part.share) + (count - part.members) * part.share;
}

// Returns, by peer, the load of the busiest resource that it uses, in seconds per byte of the buffer.
std::vector<double> BusiestByPeer(const PathMatrix& paths, const Shares& shares) {
  const auto count = static_cast<double>(paths.size());
  std::map<std::uint32_t, Part> sites;
  std::map<std::uint32_t, Part> hosts;
  for (std::size_t peer = 0; peer < paths.size(); ++peer) {
    for (Part* part : {&sites[paths.site(peer)], &hosts[paths.host(peer)]}) {
      ++part->members;
      part->share += shares[peer] / static_cast<double>(kWholeShare);
    }
  }
  std::vector<double> busiest(paths.size());
  for (std::size_t peer = 0; peer < paths.size(); ++peer) {
    if (hosts.size() > 1) {
      busiest[peer] = Sent(hosts.at(paths.host(peer)), count) / std::min(paths.uplink(peer), paths.downlink(peer));
    }
    if (sites.size() > 1) {
      busiest[peer] = std::max(busiest[peer], Sent(sites.at(paths.site(peer)), count) / paths.site_uplink(peer));
    }
  }
  ForEachPath(paths.size(), [&](std::uint32_t from, std::uint32_t to) {
    if (paths.shares_host(from, to)) return;
    const Part& here = hosts.at(paths.host(from));
    const Part& there = hosts.at(paths.host(to));
    const double path = (here.members * there.share + there.members * here.share) / paths.rate(from, to);
    busiest[from] = std::max(busiest[from], path);
    busiest[to] = std::max(busiest[to], path);
  });
  return busiest;
}

double Most(const std::vector<double>& busiest) { return *std::max_element(busiest.begin(), busiest.end()); }

// Shares, and the resulting load of each peer.
struct Split {
  Shares shares;
  std::vector<double> busiest;
};

// Moves `step` from the busiest peer that has it to the least busy one that may take it. Returns false, without a
// change, if that does not lower the maximum load of the two.
bool Move(const PathMatrix& paths, std::uint32_t step, std::uint32_t share_max, Split* split) {
  constexpr std::size_t kNobody = ~std::size_t{0};
  const auto& [shares, busiest] = *split;
  std::size_t from = kNobody;
  std::size_t to = kNobody;
  for (std::size_t peer = 0; peer < shares.size(); ++peer) {
    if (shares[peer] >= step && (from == kNobody || busiest[peer] > busiest[from])) from = peer;
    if (shares[peer] + step > share_max) continue;
    if (to == kNobody || busiest[peer] < busiest[to]) to = peer;
  }
  if (from == kNobody || to == kNobody || from == to) return false;
  Split moved{.shares = shares, .busiest = {}};
  moved.shares[from] -= step;
  moved.shares[to] += step;
  moved.busiest = BusiestByPeer(paths, moved.shares);
  if (std::max(moved.busiest[from], moved.busiest[to]) >= busiest[from]) return false;
  *split = std::move(moved);
  return true;
}

}  // namespace

double BusiestSecondsPerByte(const PathMatrix& paths, const Shares& shares) {
  return Most(BusiestByPeer(paths, shares));
}

Shares DirectShares(const PathMatrix& measured) { return DirectShares(measured, ShareMax(measured.size())); }

Shares DirectShares(const PathMatrix& measured, std::uint32_t share_max) {
  if (measured.size() <= 2 || measured.size() > kSharesPeersMax) return {};
  const PathMatrix paths = WithAssumptions(measured);
  Split split{.shares = EqualShares(paths.size()), .busiest = {}};
  split.busiest = BusiestByPeer(paths, split.shares);
  const double equal = Most(split.busiest);
  for (std::uint32_t step = kStepFirst; step >= kStepLast; step /= 2) {
    for (std::size_t moves = 0; moves < kMovesPerPeer * paths.size() && Move(paths, step, share_max, &split); ++moves) {
    }
  }
  return equal > kSharesGainRatio * Most(split.busiest) ? split.shares : Shares{};
}

}  // namespace ringway
