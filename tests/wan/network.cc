#include "tests/wan/network.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

namespace ringway::wan {
namespace {

Nanoseconds Seconds(double seconds) { return Nanoseconds(static_cast<std::int64_t>(seconds * 1e9)); }

bool Chance(double probability, std::mt19937_64& dice) {
  return probability > 0 && std::uniform_real_distribution<double>(0, 1)(dice) < probability;
}

}  // namespace

Network::Network(Scenario scenario) : scenario_(std::move(scenario)), uplink_free_at_(scenario_.hosts.size()) {
  const std::size_t hosts = scenario_.hosts.size();
  std::map<std::string, std::size_t> sites;
  for (const Host& host : scenario_.hosts) site_of_.push_back(sites.try_emplace(host.site, sites.size()).first->second);
  way_out_free_at_.resize(sites.size());
  flows_.resize(hosts);
  for (std::size_t from = 0; from < hosts; ++from) {
    for (std::size_t to = 0; to < hosts; ++to) {
      flows_[from].push_back({.free_at = {}, .last_due = {}, .dice = {}, .traffic = {}});
      flows_[from][to].dice.seed(scenario_.seed * kHostsMax * kHostsMax + from * kHostsMax + to);
    }
  }
}

void Network::Change(Scenario scenario) { scenario_ = std::move(scenario); }

bool Network::Pass(const Pipe& pipe, TimePoint* free_at, std::uint32_t bytes, TimePoint* at) {
  if (pipe.bytes_per_second <= 0) return true;
  const TimePoint out = std::max(*free_at, *at) + Seconds(bytes / pipe.bytes_per_second);
  // A packet that finds the pipe free is sent, however small the queue.
  if (*free_at > *at && out - *at > Seconds(pipe.queue_seconds)) return false;
  *free_at = *at = out;
  return true;
}

std::vector<Delivery> Network::Send(std::size_t from, std::size_t to, const PacketInfo& packet, TimePoint now) {
  const Path& path = scenario_.paths[from][to];
  Flow& flow = flows_[from][to];
  std::vector<Delivery> out;
  for (std::uint32_t segment = 0; segment < packet.segments; ++segment) {
    const std::uint32_t bytes = packet.WireBytes(segment);
    TimePoint at = now;
    ++flow.traffic.packets;
    flow.traffic.bytes += bytes;
    const Host& sender = scenario_.hosts[from];
    const bool leaves = site_of_[from] != site_of_[to];
    if (!Pass(sender.uplink, &uplink_free_at_[from], bytes, &at) ||
        (leaves && !Pass(sender.way_out, &way_out_free_at_[site_of_[from]], bytes, &at)) ||
        !Pass(path.pipe, &flow.free_at, bytes, &at)) {
      ++flow.traffic.overflowed;
      continue;
    }
    if (path.black_hole || Chance(path.loss, flow.dice)) {
      ++flow.traffic.lost;
      continue;
    }
    const bool corrupt = Chance(path.corrupt, flow.dice);
    if (corrupt) ++flow.traffic.corrupted;
    flow.last_due = std::max(flow.last_due, at + path.delay);
    const bool joins =
        !out.empty() && out.back().first + out.back().count == segment && !corrupt && !out.back().corrupt;
    if (!joins) out.push_back({.first = segment, .count = 0, .due = {}, .corrupt = corrupt, .random = flow.dice()});
    ++out.back().count;
    out.back().due = flow.last_due;
  }
  return out;
}

}  // namespace ringway::wan
