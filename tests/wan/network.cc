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

// Returns how many of the segments are dropped. `passes` may change those that are not.
template <typename Segment, typename Passes>
std::uint64_t DropUnless(std::vector<Segment>* segments, Passes passes) {
  std::size_t kept = 0;
  for (Segment segment : *segments) {
    if (passes(&segment)) (*segments)[kept++] = segment;
  }
  const std::size_t dropped = segments->size() - kept;
  segments->resize(kept);
  return dropped;
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

std::uint64_t Network::Pass(const Pipe& pipe, Drops drops, TimePoint* free_at, Packet* packet) {
  if (pipe.bytes_per_second <= 0 || packet->segments.empty()) return 0;
  // A packet that finds the pipe free is sent, however small the queue.
  const auto has_room = [&](std::uint64_t bytes, TimePoint at) {
    const Nanoseconds takes = Seconds(static_cast<double>(bytes) / pipe.bytes_per_second);
    return *free_at <= at || *free_at + takes - at <= Seconds(pipe.queue_seconds);
  };
  const bool whole = drops == Drops::kSuperPackets;
  std::uint64_t bytes = 0;
  for (const Segment& segment : packet->segments) bytes += segment.bytes;
  if (whole && !has_room(bytes, packet->segments.front().at)) return std::exchange(packet->segments, {}).size();
  return DropUnless(&packet->segments, [&](auto* segment) {
    if (!whole && !has_room(segment->bytes, segment->at)) return false;
    segment->at = std::max(*free_at, segment->at) + Seconds(segment->bytes / pipe.bytes_per_second);
    *free_at = segment->at;
    return true;
  });
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
  constexpr double kUnbounded = 1e6;
  Pipe uplink = scenario_.hosts[host].uplink;
  if (scenario_.hosts[host].drops == Drops::kDevice) uplink.queue_seconds = kUnbounded;
  for (const RateChange& change : scenario_.hosts[host].schedule) {
    if (now >= schedule_start_ + Seconds(change.at)) uplink.bytes_per_second = change.bytes_per_second;
  }
  return uplink;
}

void Network::PassUplink(TimePoint now, Packet* packet) {
  const Host& sender = scenario_.hosts[packet->from];
  Traffic& traffic = flows_[packet->from][packet->to].traffic;
  traffic.packets += packet->segments.size();
  for (const Segment& segment : packet->segments) traffic.bytes += segment.bytes;
  const Pipe uplink = UplinkOf(packet->from, now);
  traffic.overflowed += Pass(uplink, sender.drops, &uplink_free_at_[packet->from], packet);
  traffic.policed += DropUnless(&packet->segments, [&](const auto* segment) {
    return Conforms(sender.policer, &buckets_[packet->from], segment->bytes, segment->at);
  });
  packet->next = Stage::kSiteUplink;
  const bool leaves = site_of_[packet->from] != site_of_[packet->to];
  const bool meets_others = leaves && sender.site_uplink.bytes_per_second > 0 && uplink.bytes_per_second > 0;
  if (!meets_others) PassSiteUplink(packet);
}

void Network::PassSiteUplink(Packet* packet) {
  const Host& sender = scenario_.hosts[packet->from];
  const Path& path = scenario_.paths[packet->from][packet->to];
  Flow& flow = flows_[packet->from][packet->to];
  const std::size_t site = site_of_[packet->from];
  if (site != site_of_[packet->to]) {
    flow.traffic.overflowed += Pass(sender.site_uplink, sender.drops, &site_uplink_free_at_[site], packet);
  }
  flow.traffic.overflowed += Pass(path.pipe, sender.drops, &flow.free_at, packet);
  flow.traffic.lost += DropUnless(&packet->segments, [&](auto* segment) {
    if (path.black_hole || Chance(path.loss, flow.dice)) return false;
    segment->corrupt = Chance(path.corrupt, flow.dice);
    if (segment->corrupt) ++flow.traffic.corrupted;
    segment->at += path.delay + JitterOf(path, &flow, segment->at);
    if (!path.reorder) segment->at = flow.last_due = std::max(flow.last_due, segment->at);
    return true;
  });
  packet->next = scenario_.hosts[packet->to].downlink.bytes_per_second > 0 ? Stage::kDownlink : Stage::kArrived;
}

void Network::PassDownlink(Packet* packet) {
  const Host& receiver = scenario_.hosts[packet->to];
  Traffic& traffic = flows_[packet->from][packet->to].traffic;
  traffic.overflowed += Pass(receiver.downlink, receiver.drops, &downlink_free_at_[packet->to], packet);
  packet->next = Stage::kArrived;
}

std::vector<Delivery> Network::Advance(Stage stage, std::size_t from, std::size_t to, const PacketInfo& info,
                                       TimePoint now) {
  if (info.opens && !scenario_.hosts[to].inbound) {
    ++flows_[from][to].traffic.turned_away;
    return {};
  }
  Packet packet{.from = from, .to = to, .segments = {}};
  packet.segments.reserve(info.segments);
  for (std::uint32_t index = 0; index < info.segments; ++index) {
    packet.segments.push_back({.index = index, .bytes = info.WireBytes(index), .at = now});
  }
  if (stage == Stage::kUplink) PassUplink(now, &packet);
  if (stage == Stage::kSiteUplink) PassSiteUplink(&packet);
  if (stage == Stage::kDownlink) PassDownlink(&packet);
  const bool reorders = scenario_.paths[from][to].reorder;
  std::vector<Delivery> out;
  for (const Segment& segment : packet.segments) {
    const bool joins = !out.empty() && out.back().first + out.back().count == segment.index && !segment.corrupt &&
                       !out.back().corrupt && (!reorders || out.back().due == segment.at);
    if (!joins) {
      out.push_back({.first = segment.index,
                     .count = 0,
                     .due = {},
                     .corrupt = segment.corrupt,
                     .random = flows_[from][to].dice(),
                     .next = packet.next});
    }
    ++out.back().count;
    out.back().due = segment.at;
  }
  return out;
}

}  // namespace ringway::wan
