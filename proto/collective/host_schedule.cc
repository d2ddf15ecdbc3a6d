#include "proto/collective/host_schedule.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace ringway::collective {
namespace {

bool IsIn(std::span<const Rank> host, Rank rank) { return std::find(host.begin(), host.end(), rank) != host.end(); }

}  // namespace

bool IsSite(const Routes& routes, std::span<const Rank> host) {
  if (host.empty() || routes.sites.size() != routes.ring.size()) return false;
  const std::uint32_t site = routes.sites[host.front().value];
  return std::all_of(routes.ring.begin(), routes.ring.end(),
                     [&](Rank rank) { return (routes.sites[rank.value] == site) == IsIn(host, rank); });
}

Schedule WithoutHost(Schedule schedule, std::span<const Rank> host) {
  std::vector<std::uint32_t> places;  // of arrivals among those that stay
  std::uint32_t staying = 0;
  for (const Arrival& arrival : schedule.arrivals) places.push_back(IsIn(host, arrival.from) ? kNone : staying++);
  for (Sum& sum : schedule.sums) {
    std::vector<std::uint32_t> order = {Sum::kOwn};
    for (const std::uint32_t source : sum.order) {
      if (source != Sum::kOwn && places[source] != kNone) order.push_back(places[source]);
    }
    sum.order = std::move(order);
  }
  std::erase_if(schedule.arrivals, [&](const Arrival& arrival) { return IsIn(host, arrival.from); });
  std::erase_if(schedule.departures, [&](const Departure& departure) { return IsIn(host, departure.to); });
  schedule.sums_host = true;
  return schedule;
}

}  // namespace ringway::collective
