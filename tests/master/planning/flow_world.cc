#include "tests/master/planning/flow_world.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>
#include <queue>
#include <random>
#include <set>
#include <tuple>
#include <utility>

#include "proto/check.h"
#include "proto/collective/grid.h"

namespace ringway {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
// Large chunks are cut into larger segments: into at most so many, fewer where there are many transfers.
constexpr std::size_t kSegmentsMost = 64;
constexpr std::size_t kSegmentsLeast = 12;
constexpr std::size_t kSegmentsOfAll = 4096;
constexpr std::uint64_t kSegmentBytes = 256 * 1024;
constexpr double kMbit = 1e6 / 8;

struct Transfer {
  std::uint32_t pair = 0;
  std::uint32_t chunk = 0;
  std::uint32_t waits_for = 0;  // transfers
  std::vector<std::uint32_t> feeds;
  std::vector<std::uint32_t> missing;  // by segment: of those that it waits for
};

// The transfers of all ranks, and which waits for which.
std::vector<Transfer> TransfersOf(const std::vector<collective::Schedule>& schedules) {
  const auto world = static_cast<std::uint32_t>(schedules.size());
  std::vector<Transfer> transfers;
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>, std::uint32_t> arriving;  // rank, step, chunk
  for (std::uint32_t rank = 0; rank < world; ++rank) {
    for (const auto& departure : schedules[rank].departures) {
      arriving[{departure.to.value, departure.step, departure.chunk}] = static_cast<std::uint32_t>(transfers.size());
      transfers.push_back(
          {.pair = rank * world + departure.to.value, .chunk = departure.chunk, .feeds = {}, .missing = {}});
    }
  }
  std::uint32_t next = 0;
  for (std::uint32_t rank = 0; rank < world; ++rank) {
    const auto& schedule = schedules[rank];
    std::vector<std::vector<std::uint32_t>> reduced(schedule.chunks());
    std::vector<std::vector<std::uint32_t>> copied(schedule.chunks());
    for (const auto& arrival : schedule.arrivals) {
      const std::uint32_t transfer = arriving.at({rank, arrival.step, arrival.chunk});
      (arrival.reduce ? reduced : copied)[arrival.chunk].push_back(transfer);
    }
    for (const auto& departure : schedule.departures) {
      const std::uint32_t self = next++;
      if (departure.source == collective::Source::kInput) continue;
      const bool copies = departure.source == collective::Source::kFinished && !copied[departure.chunk].empty();
      for (const std::uint32_t source : (copies ? copied : reduced)[departure.chunk]) {
        transfers[source].feeds.push_back(self);
        ++transfers[self].waits_for;
      }
    }
  }
  return transfers;
}

class Simulation {
 public:
  Simulation(const FlowWorld& world, const FlowOp& op) : world_(world), host_of_(world.HostsOfRanks()) {
    for (std::uint32_t rank = 0; rank < host_of_.size(); ++rank) {
      schedules_.push_back(collective::MakeSchedule(OpKind::kAllReduce, op.algorithm, op.routes, Rank(rank)));
    }
    transfers_ = TransfersOf(schedules_);
    CutSegments(op);
    AddPipes();
    for (std::uint32_t i = 0; i < transfers_.size(); ++i) {
      transfers_[i].missing.assign(wire_[transfers_[i].chunk].size(), transfers_[i].waits_for);
      if (transfers_[i].waits_for == 0) ready_now_.push_back(i);
    }
  }

  double Run(double limit) {
    std::uint32_t most = 0;
    for (const auto& segments : wire_) most = std::max(most, static_cast<std::uint32_t>(segments.size()));
    for (std::uint32_t segment = 0; segment < most; ++segment) {
      for (const std::uint32_t transfer : ready_now_) {
        if (segment < wire_[transfers_[transfer].chunk].size()) Enqueue({transfer, segment});
      }
    }
    for (;;) {
      if (active_.empty() && arrivals_.empty()) return last_;
      if (now_ >= limit) return limit;
      SetRates();
      double next = arrivals_.empty() ? kNever : arrivals_.top().first;
      for (const std::uint32_t pair : active_) next = std::min(next, now_ + pairs_[pair].left / pairs_[pair].rate);
      Advance(next);
    }
  }

 private:
  struct Segment {
    std::uint32_t transfer = 0;
    std::uint32_t number = 0;
    bool operator<(const Segment& other) const {
      return std::tie(transfer, number) < std::tie(other.transfer, other.number);
    }
  };
  struct Pair {
    std::vector<std::uint32_t> pipes;
    double delay = 0;
    std::queue<Segment> segments;
    double left = 0;  // of the first one
    double rate = 0;
  };

  void CutSegments(const FlowOp& op) {
    const collective::Bounds bounds = collective::WeightedChunks(op.elements, schedules_[0].weights);
    const collective::Grid grid(bounds, sizeof(float), kSegmentBytes);
    for (std::uint32_t chunk = 0; chunk + 1 < bounds.size(); ++chunk) {
      const std::uint32_t count = grid.Segments(chunk);
      const std::size_t most = std::clamp(kSegmentsOfAll / transfers_.size(), kSegmentsLeast, kSegmentsMost);
      const auto together = static_cast<std::uint32_t>((count + most - 1) / most);
      std::vector<double>& wire = wire_.emplace_back();
      for (std::uint32_t i = 0; i < count; ++i) {
        if (i % together == 0) wire.push_back(0);
        const std::uint64_t elements = grid.Segment(chunk, i).count;
        // A header travels with each.
        wire.back() += 88 + static_cast<double>(EncodedBytes(op.codec, DType::kF32, elements));
      }
    }
  }

  void AddPipes() {
    std::map<std::tuple<char, std::uint32_t, std::uint32_t>, std::uint32_t> known;
    const auto pipe = [&](char kind, std::uint32_t a, std::uint32_t b, double rate) {
      const auto [found, is_new] = known.try_emplace({kind, a, b}, static_cast<std::uint32_t>(pipe_rates_.size()));
      if (is_new) pipe_rates_.push_back(rate);
      return found->second;
    };
    const auto world = static_cast<std::uint32_t>(host_of_.size());
    pairs_.resize(world * world);
    for (std::uint32_t from = 0; from < world; ++from) {
      for (std::uint32_t to = 0; to < world; ++to) {
        Pair& pair = pairs_[from * world + to];
        const std::uint32_t a = host_of_[from];
        const std::uint32_t b = host_of_[to];
        pair.delay = a == b ? kMemoryDelay : world_.delays[a][b];
        if (a == b) {
          pair.pipes = {pipe('m', a, 0, kMemoryRate)};
          continue;
        }
        pair.pipes = {pipe('u', a, 0, world_.hosts[a].uplink), pipe('p', a, b, world_.rates[a][b]),
                      pipe('d', b, 0, world_.hosts[b].downlink)};
        const std::uint32_t site = world_.hosts[a].site;
        if (site != world_.hosts[b].site && world_.site_uplinks[site] > 0) {
          pair.pipes.push_back(pipe('s', site, 0, world_.site_uplinks[site]));
        }
      }
    }
    load_.resize(pipe_rates_.size());
  }

  void Enqueue(Segment segment) {
    const std::uint32_t index = transfers_[segment.transfer].pair;
    Pair& pair = pairs_[index];
    pair.segments.push(segment);
    if (pair.segments.size() > 1) return;
    pair.left = WireBytes(segment);
    active_.push_back(index);
  }

  double WireBytes(Segment segment) const { return wire_[transfers_[segment.transfer].chunk][segment.number]; }

  // Max-min fair: the pipe with the least for each flow gives it to all its flows, and so on for those left.
  void SetRates() {
    std::vector<std::uint32_t> used;
    for (const std::uint32_t index : active_) {
      pairs_[index].rate = 0;
      for (const std::uint32_t pipe : pairs_[index].pipes) {
        if (load_[pipe].flows++ == 0) {
          used.push_back(pipe);
          load_[pipe].free = pipe_rates_[pipe];
        }
      }
    }
    std::vector<std::uint32_t> open = active_;
    while (!open.empty()) {
      double least = kNever;
      for (const std::uint32_t pipe : used) {
        if (load_[pipe].flows > 0) least = std::min(least, load_[pipe].free / load_[pipe].flows);
      }
      least *= 1 + 1e-9;
      std::erase_if(open, [&](std::uint32_t index) {
        Pair& pair = pairs_[index];
        const bool bound = std::any_of(pair.pipes.begin(), pair.pipes.end(), [&](std::uint32_t pipe) {
          return load_[pipe].limited || load_[pipe].free <= least * load_[pipe].flows;
        });
        if (!bound) return false;
        for (const std::uint32_t pipe : pair.pipes)
          load_[pipe].limited |= load_[pipe].free <= least * load_[pipe].flows;
        pair.rate = least;
        return true;
      });
      for (const std::uint32_t index : active_) {
        if (pairs_[index].rate != least) continue;
        for (const std::uint32_t pipe : pairs_[index].pipes) {
          load_[pipe].free = std::max(0.0, load_[pipe].free - least);
          --load_[pipe].flows;
        }
      }
    }
    for (const std::uint32_t pipe : used) load_[pipe] = {};
  }

  void Advance(double to) {
    for (const std::uint32_t index : active_) pairs_[index].left -= pairs_[index].rate * (to - now_);
    const double passed = to - now_;
    now_ = to;
    std::vector<std::uint32_t> before;
    before.swap(active_);
    for (const std::uint32_t index : before) {
      Pair& pair = pairs_[index];
      // A remainder of less than a thousandth of the time so far counts as sent, to save steps.
      if (pair.left <= pair.rate * std::max(1e-9, 1e-3 * std::min(passed, now_))) {
        const Segment sent = pair.segments.front();
        pair.segments.pop();
        arrivals_.emplace(now_ + pair.delay, sent);
        if (pair.segments.empty()) continue;
        pair.left = WireBytes(pair.segments.front());
      }
      active_.push_back(index);
    }
    while (!arrivals_.empty() && arrivals_.top().first <= now_) {
      const Segment arrived = arrivals_.top().second;
      last_ = arrivals_.top().first;
      arrivals_.pop();
      for (const std::uint32_t fed : transfers_[arrived.transfer].feeds) {
        if (--transfers_[fed].missing[arrived.number] == 0) Enqueue({fed, arrived.number});
      }
    }
  }

  struct Load {
    double free = 0;
    std::uint32_t flows = 0;
    bool limited = false;
  };
  using Timed = std::pair<double, Segment>;

  const FlowWorld& world_;
  std::vector<std::uint32_t> host_of_;
  std::vector<collective::Schedule> schedules_;
  std::vector<Transfer> transfers_;
  std::vector<std::uint32_t> ready_now_;
  std::vector<std::vector<double>> wire_;  // bytes by chunk and segment
  std::vector<Pair> pairs_;
  std::vector<double> pipe_rates_;
  std::vector<Load> load_;
  std::vector<std::uint32_t> active_;
  std::priority_queue<Timed, std::vector<Timed>, std::greater<>> arrivals_;
  double now_ = 0;
  double last_ = 0;
};

}  // namespace

std::vector<std::uint32_t> FlowWorld::HostsOfRanks() const {
  std::vector<std::uint32_t> out;
  for (std::uint32_t host = 0; host < hosts.size(); ++host) out.insert(out.end(), hosts[host].peers, host);
  return out;
}

double FlowWorld::LoneRate(std::uint32_t from, std::uint32_t to) const {
  if (from == to) return kMemoryRate;
  double rate = std::min({hosts[from].uplink, hosts[to].downlink, rates[from][to]});
  const std::uint32_t site = hosts[from].site;
  if (site != hosts[to].site && site_uplinks[site] > 0) rate = std::min(rate, site_uplinks[site]);
  return rate;
}

std::string FlowWorld::Text() const {
  std::string text;
  const auto print = [&](const char* format, auto... values) {
    char buffer[80];
    std::snprintf(buffer, sizeof buffer, format, values...);
    text += buffer;
  };
  for (std::uint32_t host = 0; host < hosts.size(); ++host) {
    print("  host %u: peers %u site %u", host, hosts[host].peers, hosts[host].site);
    print(" (%.0f out) up %.0f down %.0f Mbit/s;", site_uplinks[hosts[host].site] / kMbit, hosts[host].uplink / kMbit,
          hosts[host].downlink / kMbit);
    for (std::uint32_t to = 0; to < hosts.size(); ++to) {
      if (to != host) print(" %.0fms", 1e3 * delays[host][to]);
      if (to != host && rates[host][to] < hosts[host].uplink) print("/%.0f", rates[host][to] / kMbit);
    }
    text += "\n";
  }
  return text;
}

FlowWorld RandomFlowWorld(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](std::size_t bound) { return static_cast<std::uint32_t>(random() % bound); };
  const auto between = [&](double least, double most) {
    return least * std::pow(most / least, static_cast<double>(random() >> 11) * 0x1p-53);
  };
  FlowWorld world;
  const std::uint32_t hosts = 1 + below(12);
  const std::uint32_t sites = below(3) == 0 ? hosts : 1 + below(hosts);
  const std::uint32_t peers_max = below(2) == 0 || hosts > 6 ? 1 : 2 + below(hosts > 3 ? 2 : 7);
  const bool same_peers = below(2) == 0;
  const double base = kMbit * between(50, 10'000);
  const bool even_uplinks = below(3) == 0;
  const bool even_downlinks = below(2) == 0;
  const bool narrow_paths = below(3) == 0;
  const bool shared = below(2) == 0;
  std::vector<std::uint32_t> members(sites);
  for (std::uint32_t host = 0; host < hosts; ++host) {
    const std::uint32_t site = host < sites ? host : below(sites);
    ++members[site];
    const double uplink = even_uplinks ? base : base * between(0.2, 1);
    world.hosts.push_back({.uplink = uplink,
                           .downlink = even_downlinks ? uplink : uplink * between(1, 10),
                           .site = site,
                           .peers = same_peers ? peers_max : 1 + below(peers_max)});
  }
  if (hosts == 1) world.hosts[0].peers = std::max(2U, world.hosts[0].peers);
  for (std::uint32_t site = 0; site < sites; ++site) {
    world.site_uplinks.push_back(shared && members[site] > 1 ? base * between(0.3, 2) : 0);
  }
  const double longest = between(2e-3, 150e-3);
  std::map<std::pair<std::uint32_t, std::uint32_t>, double> site_delays;  // and rates: hosts of a site go the same way
  std::map<std::pair<std::uint32_t, std::uint32_t>, double> site_rates;
  const auto rate = [&](std::uint32_t from, std::uint32_t to) {
    return site_rates.try_emplace({world.hosts[from].site, world.hosts[to].site}, base * between(0.1, 2)).first->second;
  };
  world.delays.assign(hosts, std::vector<double>(hosts));
  world.rates.assign(hosts, std::vector<double>(hosts, 100 * base));
  for (std::uint32_t a = 0; a < hosts; ++a) {
    for (std::uint32_t b = a + 1; b < hosts; ++b) {
      const auto ends = std::minmax(world.hosts[a].site, world.hosts[b].site);
      const double far = site_delays.try_emplace(ends, between(1e-3, longest)).first->second;
      world.delays[a][b] = world.delays[b][a] = ends.first == ends.second ? 1e-4 : far;
      if (!narrow_paths || ends.first == ends.second) continue;
      world.rates[a][b] = rate(a, b);
      world.rates[b][a] = rate(b, a);
    }
  }
  return world;
}

double FlowSeconds(const FlowWorld& world, const FlowOp& op, double limit) { return Simulation(world, op).Run(limit); }

}  // namespace ringway
