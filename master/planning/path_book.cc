#include "master/planning/path_book.h"

#include <algorithm>
#include <functional>
#include <string>

#include "proto/endpoint.h"

namespace ringway {
namespace {

constexpr double kAlike = 1.25;

// Two addresses of one host that are further apart are those of two, behind one address translator.
constexpr double kHostDelayMax = 250e-6;

template <typename Key, typename Value>
bool Set(std::map<Key, Value>& values, const Key& key, Value value, Value max) {
  if (value <= Value{} || value > max) return false;
  const auto [found, is_new] = values.try_emplace(key, value);
  return is_new || std::exchange(found->second, value) != value;
}

// 0: not known.
template <typename Key, typename Value>
Value Known(const std::map<Key, Value>& values, const Key& key) {
  const auto found = values.find(key);
  return found == values.end() ? Value{} : found->second;
}

// Returns the host of an address, without its port; of a daemon that nobody can dial, its name, which is no host's.
// Empty if there is neither.
std::string HostOf(const control::PeerInfo& member) {
  if (member.address().empty()) return member.daemon().empty() ? "" : "daemon " + member.daemon();
  const Result<Endpoint> endpoint = ParseEndpoint(member.address());
  return endpoint.ok() ? endpoint.value().host : "";
}

// REQUIRES: delays are set.
void SetHosts(const std::vector<control::PeerInfo>& members, PathMatrix& paths) {
  std::map<std::string, std::vector<std::uint32_t>> firsts;  // by address: the first peer of each host
  for (std::uint32_t peer = 0; peer < members.size(); ++peer) {
    const std::string host = HostOf(members[peer]);
    if (host.empty()) continue;
    std::vector<std::uint32_t>& known = firsts[host];
    const auto same = std::find_if(known.begin(), known.end(), [&](std::uint32_t first) {
      return members[first].address() == members[peer].address() || paths.delay(first, peer) <= kHostDelayMax;
    });
    paths.set_host(peer, same != known.end() ? *same : peer);
    if (same == known.end()) known.push_back(peer);
  }
}

// A site whose hosts name different uplinks has the lowest.
void SetSiteUplinks(const std::vector<control::PeerInfo>& members, PathMatrix& paths) {
  std::map<std::uint32_t, std::uint64_t> least;
  for (std::size_t peer = 0; peer < members.size(); ++peer) {
    if (members[peer].site_uplink() == 0) continue;
    std::uint64_t& known = least.try_emplace(paths.site(peer), members[peer].site_uplink()).first->second;
    known = std::min(known, members[peer].site_uplink());
  }
  for (std::size_t peer = 0; peer < members.size(); ++peer) {
    paths.set_site_uplink(peer, static_cast<double>(Known(least, paths.site(peer))));
  }
}

// All paths between two sites, or two hosts, get the best rate of any of them; see the header. `part_of`: a peer's.
template <typename PartOf>
void LevelBetween(PathMatrix& paths, const PartOf& part_of) {
  std::map<std::pair<std::uint32_t, std::uint32_t>, double> best_between;
  std::map<std::uint32_t, double> best_from, best_into;  // by host
  ForEachPath(paths.size(), [&](std::uint32_t from, std::uint32_t to) {
    const double rate = paths.rate(from, to);
    double& between = best_between[{part_of(from), part_of(to)}];
    between = std::max(between, rate);
    if (paths.shares_host(from, to)) return;
    for (double* best : {&best_from[paths.host(from)], &best_into[paths.host(to)]}) *best = std::max(*best, rate);
  });
  ForEachPath(paths.size(), [&](std::uint32_t from, std::uint32_t to) {
    const double sent = best_from[paths.host(from)];
    if (part_of(from) == part_of(to) || sent == 0) return;
    const double received = best_into[paths.host(to)];
    const double ends = received == 0 ? sent : std::min(sent, received);
    paths.set_rate(from, to, std::min(best_between.at({part_of(from), part_of(to)}), ends));
  });
}

double Seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

// The fastest and all within kAlike of it get their median; then likewise the rest.
class Leveller {
 public:
  explicit Leveller(std::vector<double> known) : known_(std::move(known)) {
    std::sort(known_.begin(), known_.end(), std::greater<>());
    for (std::size_t i = 0; i < known_.size();) {
      std::size_t end = i;
      while (end < known_.size() && known_[end] * kAlike >= known_[i]) ++end;
      groups_.push_back({.slowest = known_[end - 1], .median = known_[(i + end) / 2]});
      i = end;
    }
  }

  double Level(double rate) const {
    for (const Group& group : groups_) {
      if (rate >= group.slowest) return group.median;
    }
    return rate;
  }

 private:
  struct Group {
    double slowest = 0;
    double median = 0;
  };
  std::vector<double> known_;
  std::vector<Group> groups_;
};

void LevelAlike(PathMatrix& paths) {
  std::vector<double> rates;
  std::vector<double> uplinks;
  const auto is_leveled = [&](std::uint32_t from, std::uint32_t to) {
    return paths.rate(from, to) > 0 && !paths.shares_host(from, to);
  };
  ForEachPath(paths.size(), [&](std::uint32_t from, std::uint32_t to) {
    if (is_leveled(from, to)) rates.push_back(paths.rate(from, to));
  });
  for (std::size_t i = 0; i < paths.size(); ++i) {
    if (paths.uplink(i) > 0) uplinks.push_back(paths.uplink(i));
  }
  const Leveller of_paths(std::move(rates));
  const Leveller of_uplinks(std::move(uplinks));
  ForEachPath(paths.size(), [&](std::uint32_t from, std::uint32_t to) {
    if (is_leveled(from, to)) paths.set_rate(from, to, of_paths.Level(paths.rate(from, to)));
  });
  for (std::size_t i = 0; i < paths.size(); ++i) paths.set_uplink(i, of_uplinks.Level(paths.uplink(i)));
}

}  // namespace

bool PathBook::SetRoundTrip(PeerId from, PeerId to, Duration round_trip) {
  return Set(round_trips_, Pair(from, to), round_trip, kRoundTripMax);
}

bool PathBook::SetRate(PeerId from, PeerId to, std::uint64_t bytes_per_second) {
  return Set(rates_, Pair(from, to), bytes_per_second, kBytesPerSecondMax);
}

bool PathBook::SetUplink(PeerId peer, std::uint64_t bytes_per_second) {
  return Set(uplinks_, peer, bytes_per_second, kBytesPerSecondMax);
}

void PathBook::Forget(PeerId peer) {
  const auto is_of_peer = [peer](const auto& entry) { return entry.first.first == peer || entry.first.second == peer; };
  std::erase_if(round_trips_, is_of_peer);
  std::erase_if(rates_, is_of_peer);
  std::erase_if(measured_, is_of_peer);
  uplinks_.erase(peer);
}

PathBook::Facts PathBook::FactsOf(PeerId from, PeerId to) const {
  const auto measured = measured_.find(Pair(from, to));
  return {.round_trip = Known(round_trips_, Pair(from, to)),
          .bytes_per_second = Known(rates_, Pair(from, to)),
          .measured_at = measured == measured_.end() ? std::nullopt : std::optional(measured->second)};
}

PathMatrix PathBook::Between(const std::vector<control::PeerInfo>& members, const HostRates& remembered) const {
  const auto rate = [&](std::uint64_t reported, const control::PeerInfo& from, const std::string& to) {
    return static_cast<double>(reported != 0 ? reported : remembered.Known(KeyInRates(from), to));
  };
  PathMatrix paths(members.size());
  std::map<std::string, std::uint32_t> sites;
  for (std::size_t i = 0; i < members.size(); ++i) {
    const auto next = static_cast<std::uint32_t>(sites.size());
    paths.set_site(i, sites.try_emplace(members[i].site(), next).first->second);
    paths.set_uplink(i, rate(Known(uplinks_, PeerId(members[i].peer_id())), members[i], ""));
  }
  ForEachPath(members.size(), [&](std::uint32_t from, std::uint32_t to) {
    const PeerId a(members[from].peer_id());
    const PeerId b(members[to].peer_id());
    const Duration there = Known(round_trips_, Pair(a, b));
    const Duration back = Known(round_trips_, Pair(b, a));
    const bool both = there != Duration{} && back != Duration{};
    paths.set_delay(from, to, Seconds(both ? std::min(there, back) : std::max(there, back)) / 2);
    paths.set_rate(from, to, rate(Known(rates_, Pair(a, b)), members[from], KeyInRates(members[to])));
  });
  SetHosts(members, paths);
  SetSiteUplinks(members, paths);
  LevelBetween(paths, [&](std::uint32_t peer) { return paths.host(peer); });
  LevelBetween(paths, [&](std::uint32_t peer) { return paths.site(peer); });
  LevelAlike(paths);
  return paths;
}

}  // namespace ringway
