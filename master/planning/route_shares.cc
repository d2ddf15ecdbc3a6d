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

// By peer, in seconds per byte of the buffer: the load of the busiest resource that it uses.
std::vector<double> BusiestByPeer(const PathMatrix& paths, const Shares& shares) {
  struct Site {
    double members = 0;
    double part = 0;
  };
  const auto count = static_cast<double>(paths.size());
  const auto part = [&](std::size_t peer) { return shares[peer] / static_cast<double>(kWholeShare); };
  std::map<std::uint32_t, Site> sites;
  std::vector<double> busiest(paths.size());
  for (std::size_t peer = 0; peer < paths.size(); ++peer) {
    Site& site = sites[paths.site(peer)];
    ++site.members;
    site.part += part(peer);
    const double end = std::min(paths.uplink(peer), paths.downlink(peer));
    busiest[peer] = (1 + (count - 2) * part(peer)) / end;
  }
  ForEachPath(paths.size(), [&](std::uint32_t from, std::uint32_t to) {
    const double path = (part(from) + part(to)) / paths.rate(from, to);
    busiest[from] = std::max(busiest[from], path);
    busiest[to] = std::max(busiest[to], path);
  });
  for (std::size_t peer = 0; sites.size() > 1 && peer < paths.size(); ++peer) {
    const Site& site = sites.at(paths.site(peer));
    const double out = site.members * (1 - site.part) + (count - site.members) * site.part;
    busiest[peer] = std::max(busiest[peer], out / paths.site_uplink(peer));
  }
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
bool Move(const PathMatrix& paths, std::uint32_t step, Split* split) {
  constexpr std::size_t kNobody = ~std::size_t{0};
  const auto& [shares, busiest] = *split;
  std::size_t from = kNobody;
  std::size_t to = kNobody;
  for (std::size_t peer = 0; peer < shares.size(); ++peer) {
    if (shares[peer] >= step && (from == kNobody || busiest[peer] > busiest[from])) from = peer;
    if (shares[peer] + step > ShareMax(shares.size())) continue;
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

Shares DirectShares(const PathMatrix& measured) {
  if (measured.size() <= 2 || measured.size() > kSharesPeersMax) return {};
  const PathMatrix paths = WithAssumptions(measured);
  Split split{.shares = EqualShares(paths.size()), .busiest = {}};
  split.busiest = BusiestByPeer(paths, split.shares);
  const double equal = Most(split.busiest);
  for (std::uint32_t step = kStepFirst; step >= kStepLast; step /= 2) {
    for (std::size_t moves = 0; moves < kMovesPerPeer * paths.size() && Move(paths, step, &split); ++moves) {
    }
  }
  return equal > kSharesGainRatio * Most(split.busiest) ? split.shares : Shares{};
}

}  // namespace ringway
