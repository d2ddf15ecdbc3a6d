#include "master/planning/route_sites.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <vector>

#include "master/planning/cost_model.h"
#include "master/planning/route_shares.h"
#include "proto/collective/shares.h"

namespace ringway {
namespace {

using Numbers = std::vector<std::uint32_t>;  // by rank

// Numbered from 0 in order of rank.
template <typename PartOf>
Numbers Numbered(std::size_t peers, const PartOf& part_of) {
  std::map<std::uint32_t, std::uint32_t> numbers;
  Numbers out;
  for (std::uint32_t peer = 0; peer < peers; ++peer) {
    out.push_back(numbers.try_emplace(part_of(peer), static_cast<std::uint32_t>(numbers.size())).first->second);
  }
  return out;
}

// Peers that are near each other, compared with the longest way: each is near the first of its number.
Numbers ByDelay(const PathMatrix& paths) {
  constexpr double kNearRatio = 10;
  const double longest = LongestDelay(paths);
  std::vector<std::uint32_t> firsts;
  return Numbered(paths.size(), [&](std::uint32_t peer) {
    const auto near = std::find_if(firsts.begin(), firsts.end(), [&](std::uint32_t first) {
      return kNearRatio * paths.delay(first, peer) < longest;
    });
    if (near != firsts.end()) return *near;
    firsts.push_back(peer);
    return peer;
  });
}

// Each site as one peer. Its members take turns with the chunks, so its slowest host decides.
PathMatrix BetweenSites(const PathMatrix& paths, const Numbers& sites) {
  PathMatrix out(*std::max_element(sites.begin(), sites.end()) + 1);
  std::vector<double> members(out.size());
  std::map<std::uint32_t, double> of_host;
  for (std::uint32_t peer = 0; peer < paths.size(); ++peer) ++members[sites[peer]], ++of_host[paths.host(peer)];
  const auto lower = [](double known, double rate) { return known == 0 ? rate : std::min(known, rate); };
  for (std::uint32_t peer = 0; peer < paths.size(); ++peer) {
    const std::uint32_t site = sites[peer];
    const double turns = members[site] / of_host.at(paths.host(peer));
    double uplink = paths.uplink(peer) * turns;
    if (paths.site_uplink(peer) > 0) uplink = std::min(uplink, paths.site_uplink(peer));
    out.set_uplink(site, lower(out.uplink(site), uplink));
    out.set_downlink(site, lower(out.downlink(site), paths.downlink(peer) * turns));
  }
  ForEachPath(paths.size(), [&](std::uint32_t from, std::uint32_t to) {
    const std::uint32_t here = sites[from];
    const std::uint32_t there = sites[to];
    if (here == there) return;
    const double hosts =
        std::min(members[here] / of_host.at(paths.host(from)), members[there] / of_host.at(paths.host(to)));
    out.set_rate(here, there, lower(out.rate(here, there), paths.rate(from, to) * hosts));
  });
  for (std::uint32_t site = 0; site < out.size(); ++site) out.set_site(site, site);
  return out;
}

}  // namespace

void ChooseSites(const PathMatrix& measured, Routes* routes) {
  const std::size_t peers = measured.size();
  const PathMatrix paths = WithAssumptions(measured);
  double least = std::numeric_limits<double>::infinity();
  Routes best = *routes;
  const auto attempt = [&](const Numbers& sites, const Numbers& shares) {
    Routes routes_with = *routes;
    routes_with.sites = sites;
    routes_with.site_shares = shares;
    const double seconds = CostModel(paths, routes_with).Seconds(Algorithm::kHierarchical, kSitesBytes);
    if (seconds >= least) return;
    least = seconds;
    best = std::move(routes_with);
  };
  const std::set<Numbers> candidates = {Numbered(peers, [&](std::uint32_t peer) { return paths.site(peer); }),
                                        Numbered(peers, [&](std::uint32_t peer) { return paths.host(peer); }),
                                        ByDelay(paths)};
  for (const Numbers& sites : candidates) {
    attempt(sites, {});
    const PathMatrix between = BetweenSites(paths, sites);
    const Numbers shares = DirectShares(between, SiteShareMax(between.size()));
    if (!shares.empty()) attempt(sites, shares);
  }
  *routes = std::move(best);
}

}  // namespace ringway
