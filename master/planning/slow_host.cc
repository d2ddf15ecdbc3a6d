#include "master/planning/slow_host.h"

#include <algorithm>
#include <set>
#include <vector>

#include "master/planning/ring_order.h"
#include "master/planning/topology.h"

namespace ringway {
namespace {

// Returns the paths among those peers, in their order.
PathMatrix PathsAmong(const PathMatrix& all, const std::vector<std::size_t>& peers) {
  PathMatrix paths(peers.size());
  paths.set_slower_max(all.slower_max());
  for (std::size_t peer = 0; peer < peers.size(); ++peer) {
    paths.set_uplink(peer, all.uplink(peers[peer]));
    paths.set_downlink(peer, all.downlink(peers[peer]));
    paths.set_site_uplink(peer, all.site_uplink(peers[peer]));
    paths.set_host(peer, all.host(peers[peer]));
    paths.set_site(peer, all.site(peers[peer]));
  }
  ForEachPath(peers.size(), [&](std::uint32_t from, std::uint32_t to) {
    paths.set_delay(from, to, all.delay(peers[from], peers[to]));
    paths.set_rate(from, to, all.rate(peers[from], peers[to]));
    if (const double money = all.money(peers[from], peers[to]); money > 0) paths.set_money(from, to, money);
  });
  return paths;
}

double BestSeconds(const PathMatrix& paths, const control::Plan& plan) {
  const Routes routes = RoutesWith(FindRing(paths).order, paths, RingSearch::kStrides);
  const CostModel model = ModelOf(paths, routes, plan);
  return model.Seconds(model.Best(kSlowHostBytes), kSlowHostBytes);
}

}  // namespace

std::optional<SlowHost> FindSlowHost(const PathMatrix& measured, const control::Plan& plan) {
  std::set<std::uint32_t> hosts;
  for (std::size_t peer = 0; peer < measured.size(); ++peer) hosts.insert(measured.host(peer));
  if (hosts.size() < 3) return std::nullopt;
  const PathMatrix paths = WithAssumptions(measured);
  const auto slowest_end = [&](std::size_t peer) { return std::min(paths.uplink(peer), paths.downlink(peer)); };
  std::size_t slowest = 0;
  for (std::size_t peer = 1; peer < paths.size(); ++peer) {
    if (slowest_end(peer) < slowest_end(slowest)) slowest = peer;
  }
  std::vector<std::size_t> others;
  for (std::size_t peer = 0; peer < measured.size(); ++peer) {
    if (!measured.shares_host(peer, slowest)) others.push_back(peer);
  }
  const double with = BestSeconds(measured, plan), without = BestSeconds(PathsAmong(measured, others), plan);
  if (with <= kSlowHostRatio * without) return std::nullopt;
  return SlowHost{.peer = slowest, .ratio = with / without};
}

}  // namespace ringway
