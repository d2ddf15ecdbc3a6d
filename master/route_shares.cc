#include "master/route_shares.h"

#include <algorithm>
#include <map>

#include "proto/shares.h"

namespace ringway {
namespace {

using Shares = std::vector<std::uint32_t>;

constexpr double kGainRatio = 1.1;
constexpr std::uint32_t kStepFirst = kWholeShare / 16;
constexpr std::uint32_t kStepLast = kWholeShare / 4096;
constexpr std::size_t kMovesPerPeer = 4;  // of one step: bounds the search

Shares EqualShares(std::size_t peers) {
  const auto count = static_cast<std::uint32_t>(peers);
  Shares shares(peers, kWholeShare / count);
  for (std::uint32_t rest = 0; rest < kWholeShare % count; ++rest) ++shares[rest];
  return shares;
}

// Seconds a byte of the buffer, of the busiest that each peer's part or bytes go through.
class Loads {
 public:
  Loads(const PathMatrix& paths, const Shares& shares) : paths_(paths), busiest_(paths.size()) {
    const auto count = static_cast<double>(paths.size());
    const auto part = [&](std::size_t peer) { return shares[peer] / static_cast<double>(kWholeShare); };
    for (std::size_t peer = 0; peer < paths.size(); ++peer) {
      Site& site = sites_[paths.site(peer)];
      ++site.members;
      site.part += part(peer);
      const double end = std::min(paths.uplink(peer), paths.downlink(peer));
      busiest_[peer] = (1 + (count - 2) * part(peer)) / end;
    }
    ForEachPath(paths.size(), [&](std::uint32_t from, std::uint32_t to) {
      const double path = (part(from) + part(to)) / paths.rate(from, to);
      busiest_[from] = std::max(busiest_[from], path);
      busiest_[to] = std::max(busiest_[to], path);
    });
    if (sites_.size() < 2) return;
    for (std::size_t peer = 0; peer < paths.size(); ++peer) {
      const Site& site = sites_.at(paths.site(peer));
      const double out = site.members * (1 - site.part) + (count - site.members) * site.part;
      busiest_[peer] = std::max(busiest_[peer], out / paths.site_uplink(peer));
    }
  }

  double Of(std::size_t peer) const { return busiest_[peer]; }
  double Most() const { return *std::max_element(busiest_.begin(), busiest_.end()); }

 private:
  struct Site {
    double members = 0;
    double part = 0;
  };
  const PathMatrix& paths_;
  std::vector<double> busiest_;
  std::map<std::uint32_t, Site> sites_;
};

// Moves `step` from the busiest that has it to the idlest that may take it. False, and nothing is changed, if that
// makes neither's busiest less than it was.
bool Move(const PathMatrix& paths, std::uint32_t step, Shares* shares) {
  const Loads before(paths, *shares);
  constexpr std::size_t kNobody = ~std::size_t{0};
  std::size_t from = kNobody;
  std::size_t to = kNobody;
  for (std::size_t peer = 0; peer < shares->size(); ++peer) {
    const std::uint32_t share = (*shares)[peer];
    if (share >= step && (from == kNobody || before.Of(peer) > before.Of(from))) from = peer;
    if (share + step > ShareMax(shares->size())) continue;
    if (to == kNobody || before.Of(peer) < before.Of(to)) to = peer;
  }
  if (from == kNobody || to == kNobody || from == to) return false;
  (*shares)[from] -= step;
  (*shares)[to] += step;
  const Loads after(paths, *shares);
  if (std::max(after.Of(from), after.Of(to)) < before.Of(from)) return true;
  (*shares)[from] += step;
  (*shares)[to] -= step;
  return false;
}

}  // namespace

double BusiestSecondsPerByte(const PathMatrix& paths, const Shares& shares) { return Loads(paths, shares).Most(); }

Shares DirectShares(const PathMatrix& measured) {
  if (measured.size() <= 2 || measured.size() > kSharesPeersMax) return {};
  const PathMatrix paths = WithAssumptions(measured);
  const Shares equal = EqualShares(paths.size());
  Shares shares = equal;
  for (std::uint32_t step = kStepFirst; step >= kStepLast; step /= 2) {
    for (std::size_t moves = 0; moves < kMovesPerPeer * paths.size() && Move(paths, step, &shares); ++moves) {
    }
  }
  const bool is_worth = BusiestSecondsPerByte(paths, equal) > kGainRatio * BusiestSecondsPerByte(paths, shares);
  return is_worth ? shares : Shares{};
}

}  // namespace ringway
