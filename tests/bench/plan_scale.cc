// Measures what planning costs, and what it plans, for groups far larger than a group may be today: time by the cost
// model, not by sockets. Prints four tables; takes no options. The world is made up but always the same: peers in 16
// cities, evenly; great circles at two thirds of the speed of light with a detour of a half; 1 Gbit/s up and down at
// each peer, and no limit out of a city but those.
//
//   flat   the whole matrix is known, and one ring goes through all peers
//   sites  a matrix of one peer a city is ordered, and each city's peers follow each other on the ring: what remains
//          affordable when the matrix does not
//   direct, tree   have figures for as many peers as a group may have: the model passes all their transfers
//   two-level  the buffer is combined inside each city (direct), each peer then combines its share with its
//          counterparts in the other cities, and what came of it is spread inside the city
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "master/planning/cost_model.h"
#include "master/planning/ring_order.h"
#include "proto/control.pb.h"

namespace ringway {
namespace {

constexpr double kRate = 125e6;
constexpr double kDelayInside = 250e-6;
constexpr std::size_t kFlatPeersMax = 1000;  // a matrix of 10,000 peers takes 5 GB while it is planned
constexpr std::size_t kPricedPeersMax = 64;
constexpr double kSegmentBytesMax = 256 * 1024;
constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

struct City {
  const char* name;
  double latitude;
  double longitude;
};

constexpr std::array<City, 16> kCities = {{{"Frankfurt", 50, 9},
                                           {"Ashburn", 39, -77},
                                           {"Singapore", 1, 104},
                                           {"London", 51, 0},
                                           {"Portland", 46, -123},
                                           {"Tokyo", 36, 140},
                                           {"Sao Paulo", -24, -47},
                                           {"Mumbai", 19, 73},
                                           {"Sydney", -34, 151},
                                           {"Dallas", 33, -97},
                                           {"Stockholm", 59, 18},
                                           {"Seoul", 37, 127},
                                           {"Johannesburg", -26, 28},
                                           {"Toronto", 44, -79},
                                           {"Madrid", 40, -4},
                                           {"Santiago", -33, -71}}};

double Delay(const City& a, const City& b) {
  constexpr double kEarthRadiusKm = 6371;
  constexpr double kKmPerSecond = 200'000 / 1.5;
  constexpr double kRadians = 3.14159265358979 / 180;
  const double angle = std::sin(a.latitude * kRadians) * std::sin(b.latitude * kRadians) +
                       std::cos(a.latitude * kRadians) * std::cos(b.latitude * kRadians) *
                           std::cos((a.longitude - b.longitude) * kRadians);
  return kDelayInside + kEarthRadiusKm * std::acos(std::clamp(angle, -1.0, 1.0)) / kKmPerSecond;
}

// `city_of(peer)`: an index into kCities.
template <typename CityOf>
PathMatrix MatrixOf(std::size_t peers, const CityOf& city_of) {
  PathMatrix paths(peers);
  ForEachPath(peers, [&](std::uint32_t from, std::uint32_t to) {
    paths.set_delay(from, to, Delay(kCities[city_of(from)], kCities[city_of(to)]));
    paths.set_rate(from, to, kRate);
  });
  for (std::size_t peer = 0; peer < peers; ++peer) {
    paths.set_uplink(peer, kRate);
    paths.set_downlink(peer, kRate);
    paths.set_site(peer, static_cast<std::uint32_t>(city_of(peer)));
    paths.set_site_uplink(peer, kRate * static_cast<double>(peers));
  }
  return paths;
}

PathMatrix Scattered(std::size_t peers) {
  return MatrixOf(peers, [](std::size_t peer) { return peer % kCities.size(); });
}

PathMatrix OneACity() { return Scattered(kCities.size()); }

struct RingHop {
  double delay = 0;
  double rate = 0;
};

// Returns the segment size into which the grid cuts the longest chunk.
double SegmentBytes(double chunk) { return std::min(chunk, std::clamp(chunk / 4, 16.0 * 1024, kSegmentBytesMax)); }

// In each step a chunk's head moves on, or waits a chunk's time for its link: the longest walk around the ring, from
// any link and with any number of links passed on the way.
double RingWalkSeconds(const std::vector<RingHop>& hops, double chunk) {
  const std::size_t steps = 2 * (hops.size() - 1);
  double longest = 0;
  for (std::size_t first = 0; first < hops.size(); ++first) {
    double heads = 0;       // of the links passed
    double chunk_time = 0;  // on the slowest link visited
    for (std::size_t passed = 0; passed < steps; ++passed) {
      const RingHop& hop = hops[(first + passed) % hops.size()];
      chunk_time = std::max(chunk_time, chunk / hop.rate);
      longest = std::max(longest, heads + static_cast<double>(steps - passed) * chunk_time + hop.delay);
      heads += hop.delay + SegmentBytes(chunk) / hop.rate;
    }
  }
  return longest;
}

// Links all alike: both halves in a row, or the first half and then the last segment to all.
double DirectInsideSeconds(std::size_t peers, double bytes) {
  const double others = static_cast<double>(peers) - 1;
  const double chunk = bytes / static_cast<double>(peers);
  const double half = others * chunk / kRate;
  return std::max(2 * half + kDelayInside, half + 2 * kDelayInside + others * SegmentBytes(chunk) / kRate);
}

// The sites' ring with each site's peers in a row.
std::vector<RingHop> HopsBySites(std::size_t peers) {
  const PathMatrix cities = OneACity();
  const std::vector<std::uint32_t> ring = FindRing(cities).order;
  std::vector<RingHop> hops;
  for (std::size_t i = 0; i < ring.size(); ++i) {
    const std::size_t inside = peers / ring.size() + (ring[i] < peers % ring.size() ? 1 : 0);
    hops.insert(hops.end(), inside - 1, {.delay = kDelayInside, .rate = kRate});
    hops.push_back({.delay = cities.delay(ring[i], ring[(i + 1) % ring.size()]), .rate = kRate});
  }
  return hops;
}

std::string Milliseconds(double seconds) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f", seconds * 1e3);
  return text;
}

template <typename Work>
double SecondsOf(const Work& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void PrintPlanning(std::size_t peers) {
  std::string flat = "-";
  std::string flat_delay = "-";
  if (peers <= kFlatPeersMax) {
    const PathMatrix paths = Scattered(peers);
    Ring ring;
    flat = Milliseconds(SecondsOf([&] { ring = FindRing(paths); }));
    flat_delay = Milliseconds(ring.delay_seconds);
  }
  std::vector<RingHop> hops;
  const double sites = SecondsOf([&] { hops = HopsBySites(peers); });
  double around = 0;
  for (const RingHop& hop : hops) around += hop.delay;
  std::printf("%8zu %12s %12s %14s %14s\n", peers, flat.c_str(), Milliseconds(sites).c_str(), flat_delay.c_str(),
              Milliseconds(around).c_str());
}

void PrintTraffic(std::size_t peers) {
  control::View view;
  view.set_group("a-group");
  for (std::size_t peer = 0; peer < peers; ++peer) {
    control::PeerInfo& info = *view.add_members();
    info.set_peer_id(1'000'000 + peer);
    info.set_name("trainer-" + std::to_string(peer));
    info.set_site(kCities[peer % kCities.size()].name);
    info.set_address("203.0.113.100:7401");
    view.add_ring(static_cast<std::uint32_t>(peer));
  }
  const auto view_bytes = static_cast<double>(view.ByteSizeLong());
  const auto count = static_cast<double>(peers);
  control::ToMaster report;  // one path
  report.mutable_measured()->set_peer(1'000'000);
  report.mutable_measured()->set_other(1'000'000 + peers - 1);
  report.mutable_measured()->set_bytes_per_second(static_cast<std::uint64_t>(kRate));
  report.mutable_measured()->set_round_trip_us(100'000);
  const auto report_bytes = static_cast<double>(report.ByteSizeLong());
  std::printf("%8zu %12.3f %18.1f %18.1f\n", peers, view_bytes / 1e6, view_bytes * count / 1e6,
              report_bytes * count * (count - 1) / 1e6);
}

double TwoLevelSeconds(std::size_t peers, std::uint64_t bytes) {
  static const PathMatrix kAmong = OneACity();
  static const CostModel among(kAmong, {.ring = FindRing(kAmong).order});
  const std::size_t inside = peers / kCities.size();
  const std::uint64_t share = bytes / inside;
  return DirectInsideSeconds(inside, static_cast<double>(bytes)) + among.Seconds(among.Best(share), share);
}

double RingSeconds(std::size_t peers, std::uint64_t bytes) {
  const double chunk = static_cast<double>(bytes) / static_cast<double>(peers);
  return RingWalkSeconds(HopsBySites(peers), chunk);
}

// Prints where one ring stops making sense: from how many peers on two levels are over 10% faster.
void PrintEnd(std::uint64_t bytes) {
  constexpr std::size_t kMost = 16'384;
  std::size_t peers = 2 * kCities.size();
  while (peers <= kMost && RingSeconds(peers, bytes) <= 1.1 * TwoLevelSeconds(peers, bytes)) {
    peers += std::max<std::size_t>(1, peers / kCities.size() / 20) * kCities.size();
  }
  std::printf("%8zu MiB %12s\n", static_cast<std::size_t>(bytes / kMiB),
              peers > kMost ? "> 16384" : std::to_string(peers).c_str());
}

void PrintStep(std::size_t peers, std::uint64_t bytes) {
  const double ring = RingSeconds(peers, bytes);
  std::string direct = "-";
  std::string tree = "-";
  if (peers <= kPricedPeersMax) {
    const PathMatrix paths = Scattered(peers);
    const CostModel model(paths, {.ring = FindRing(paths).order}, {.retained_bytes_max = bytes});
    direct = Milliseconds(model.Seconds(Algorithm::kDirect, bytes));
    tree = Milliseconds(model.Seconds(Algorithm::kTree, bytes));
  }
  std::printf("%8zu %8zu MiB %12s %12s %12s %12s\n", peers, static_cast<std::size_t>(bytes / kMiB),
              Milliseconds(ring).c_str(), direct.c_str(), tree.c_str(),
              Milliseconds(TwoLevelSeconds(peers, bytes)).c_str());
}

void PrintAll() {
  constexpr std::array<std::size_t, 4> kPeers = {64, 100, 1000, 10'000};
  std::printf("%8s %12s %12s %14s %14s\n", "peers", "flat ms", "sites ms", "flat around", "sites around");
  for (const std::size_t peers : kPeers) PrintPlanning(peers);
  std::printf("\n%8s %12s %18s %18s\n", "peers", "view MB", "view to all MB", "whole matrix MB");
  for (const std::size_t peers : kPeers) PrintTraffic(peers);
  std::printf("\n%8s %12s %12s %12s %12s %12s   ms\n", "peers", "size", "ring", "direct", "tree", "two-level");
  for (const std::uint64_t bytes : {kMiB, 64 * kMiB, 1024 * kMiB}) {
    for (const std::size_t peers : kPeers) PrintStep(peers, bytes);
  }
  std::printf("\n%12s %12s\n", "size", "one ring ends");
  for (const std::uint64_t bytes : {kMiB, 16 * kMiB, 64 * kMiB, 256 * kMiB, 1024 * kMiB}) PrintEnd(bytes);
}

}  // namespace
}  // namespace ringway

int main() { ringway::PrintAll(); }
