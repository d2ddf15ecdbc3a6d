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

Network::Network(Scenario scenario)
    : scenario_(std::move(scenario)),
      uplink_free_at_(scenario_.hosts.size()),
      downlink_free_at_(scenario_.hosts.size()),
      buckets_(scenario_.hosts.size()) {
  const std::size_t hosts = scenario_.hosts.size();
  std::map<std::string, std::size_t> sites;
  for (const Host& host : scenario_.hosts) site_of_.push_back(sites.try_emplace(host.site, sites.size()).first->second);
  site_uplink_free_at_.resize(sites.size());
  flows_.resize(hosts);
  for (std::size_t from = 0; from < hosts; ++from) {
    flows_[from].resize(hosts);
    for (std::size_t to = 0; to < hosts; ++to) {
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

bool Network::Conforms(const Policer& policer, Bucket* bucket, std::uint32_t bytes, TimePoint at) {
  if (policer.bytes_per_second <= 0) return true;
  const double seconds = std::chrono::duration<double>(at - bucket->at).count();
  bucket->at = at;
  bucket->missing_bytes = std::max(0.0, bucket->missing_bytes - seconds * policer.bytes_per_second);
  if (bucket->missing_bytes + bytes > policer.burst_bytes) return false;
  bucket->missing_bytes += bytes;
  return true;
}

Nanoseconds Network::JitterOf(const Path& path, Flow* flow, TimePoint at) {
  if (path.jitter.count() == 0) return {};
  if (path.reorder || at >= flow->jitter_until) {
    flow->jitter = Nanoseconds(std::uniform_int_distribution<std::int64_t>(0, path.jitter.count())(flow->dice));
    flow->jitter_until = at + path.jitter;
  }
  return flow->jitter;
}

Pipe Network::UplinkOf(std::size_t host, TimePoint now) const {
  Pipe uplink = scenario_.hosts[host].uplink;
  for (const RateChange& change : scenario_.hosts[host].schedule) {
    if (now >= schedule_start_ + Seconds(change.at)) uplink.bytes_per_second = change.bytes_per_second;
  }
  return uplink;
}

bool Network::PassUplink(const Pipe& uplink, Segment* segment) {
  const Host& sender = scenario_.hosts[segment->from];
  Traffic& traffic = flows_[segment->from][segment->to].traffic;
  ++traffic.packets;
  traffic.bytes += segment->bytes;
  const TimePoint sent = segment->at;
  if (!Pass(uplink, &uplink_free_at_[segment->from], segment->bytes, &segment->at)) {
    ++traffic.overflowed;
    return false;
  }
  if (!Conforms(sender.policer, &buckets_[segment->from], segment->bytes, segment->at)) {
    ++traffic.policed;
    return false;
  }
  segment->next = Stage::kSiteUplink;
  const bool leaves = site_of_[segment->from] != site_of_[segment->to];
  const bool meets_others = leaves && sender.site_uplink.bytes_per_second > 0 && segment->at > sent;
  return meets_others || PassSiteUplink(segment);
}

bool Network::PassSiteUplink(Segment* segment) {
  const Path& path = scenario_.paths[segment->from][segment->to];
  Flow& flow = flows_[segment->from][segment->to];
  const std::size_t site = site_of_[segment->from];
  const bool leaves = site != site_of_[segment->to];
  const Pipe& site_uplink = scenario_.hosts[segment->from].site_uplink;
  if ((leaves && !Pass(site_uplink, &site_uplink_free_at_[site], segment->bytes, &segment->at)) ||
      !Pass(path.pipe, &flow.free_at, segment->bytes, &segment->at)) {
    ++flow.traffic.overflowed;
    return false;
  }
  if (path.black_hole || Chance(path.loss, flow.dice)) {
    ++flow.traffic.lost;
    return false;
  }
  segment->corrupt = Chance(path.corrupt, flow.dice);
  if (segment->corrupt) ++flow.traffic.corrupted;
  segment->at += path.delay + JitterOf(path, &flow, segment->at);
  if (!path.reorder) segment->at = flow.last_due = std::max(flow.last_due, segment->at);
  segment->next = scenario_.hosts[segment->to].downlink.bytes_per_second > 0 ? Stage::kDownlink : Stage::kArrived;
  return true;
}

bool Network::PassDownlink(Segment* segment) {
  const Pipe& downlink = scenario_.hosts[segment->to].downlink;
  if (!Pass(downlink, &downlink_free_at_[segment->to], segment->bytes, &segment->at)) {
    ++flows_[segment->from][segment->to].traffic.overflowed;
    return false;
  }
  segment->next = Stage::kArrived;
  return true;
}

std::vector<Delivery> Network::Advance(Stage stage, std::size_t from, std::size_t to, const PacketInfo& packet,
                                       TimePoint now) {
  if (packet.opens && !scenario_.hosts[to].inbound) {
    ++flows_[from][to].traffic.turned_away;
    return {};
  }
  const Pipe uplink = UplinkOf(from, now);
  const bool reorders = scenario_.paths[from][to].reorder;
  std::vector<Delivery> out;
  for (std::uint32_t index = 0; index < packet.segments; ++index) {
    Segment segment{.from = from, .to = to, .bytes = packet.WireBytes(index), .at = now, .next = stage};
    const bool passes = stage == Stage::kUplink       ? PassUplink(uplink, &segment)
                        : stage == Stage::kSiteUplink ? PassSiteUplink(&segment)
                                                      : PassDownlink(&segment);
    if (!passes) continue;
    const bool joins = !out.empty() && out.back().first + out.back().count == index && !segment.corrupt &&
                       !out.back().corrupt && out.back().next == segment.next &&
                       (!reorders || out.back().due == segment.at);
    if (!joins) {
      out.push_back({.first = index,
                     .count = 0,
                     .due = {},
                     .corrupt = segment.corrupt,
                     .random = flows_[from][to].dice(),
                     .next = segment.next});
    }
    ++out.back().count;
    out.back().due = segment.at;
  }
  return out;
}

}  // namespace ringway::wan
