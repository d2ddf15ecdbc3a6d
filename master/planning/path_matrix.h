// Measured properties of the paths between the members of a group, and their prices: the planner's input. Pure.
//
// Peers are named by index, 0 .. size() - 1; index i is rank i of the view that is planned. Paths are directed:
// (from, to) and (to, from) may differ. Units: seconds, one way; bytes per second; money of any
// currency a byte. 0 means unknown, for all of them.
//
// A plain value; not synchronized. Setters CHECK that values are finite and not negative and that the pair is valid:
// callers must validate numbers from the network.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ringway {

class PathMatrix {
 public:
  static constexpr std::size_t kPeersMax = 16'000;

  // Everything unknown, all peers at site 0. REQUIRES: 1 <= peers <= kPeersMax. Takes 16 bytes a pair, 24 with prices.
  explicit PathMatrix(std::size_t peers);

  std::size_t size() const { return site_.size(); }

  double delay(std::size_t from, std::size_t to) const { return delay_[At(from, to)]; }
  void set_delay(std::size_t from, std::size_t to, double seconds);

  // The rate of the path alone, whatever uplink and downlink allow.
  double rate(std::size_t from, std::size_t to) const { return rate_[At(from, to)]; }
  void set_rate(std::size_t from, std::size_t to, double bytes_per_second);

  // Rate of a peer over all its paths together.
  double uplink(std::size_t peer) const { return uplink_[peer]; }
  void set_uplink(std::size_t peer, double bytes_per_second);
  double downlink(std::size_t peer) const { return downlink_[peer]; }
  void set_downlink(std::size_t peer, double bytes_per_second);

  // Rate of all peers of its site to other sites together.
  double site_uplink(std::size_t peer) const { return site_uplink_[peer]; }
  void set_site_uplink(std::size_t peer, double bytes_per_second);
  bool crosses(std::size_t from, std::size_t to) const { return site_[from] != site_[to]; }

  // What a byte costs; 0 where nothing is known.
  double money(std::size_t from, std::size_t to) const { return money_.empty() ? 0 : money_[At(from, to)]; }
  void set_money(std::size_t from, std::size_t to, double per_byte);
  // A schedule that costs less may take so many times the time of the fastest one; 1: time alone decides.
  double slower_max() const { return slower_max_; }
  void set_slower_max(double ratio) { slower_max_ = ratio; }

  // Peers of one host share its uplink and its downlink, and use neither between them. Each peer its own at first.
  std::uint32_t host(std::size_t peer) const { return host_[peer]; }
  void set_host(std::size_t peer, std::uint32_t host) { host_[peer] = host; }
  bool shares_host(std::size_t from, std::size_t to) const { return host_[from] == host_[to]; }

  std::uint32_t site(std::size_t peer) const { return site_[peer]; }
  void set_site(std::size_t peer, std::uint32_t site) { site_[peer] = site; }

  // Rate of a lone flow: the minimum of the known rates of path, uplink and downlink; inside a host the path's.
  double LinkRate(std::size_t from, std::size_t to) const;

  friend bool operator==(const PathMatrix&, const PathMatrix&) = default;

 private:
  std::size_t At(std::size_t from, std::size_t to) const { return from * size() + to; }

  std::vector<double> delay_;
  std::vector<double> rate_;
  std::vector<double> money_;  // empty: none has a price
  double slower_max_ = 1;
  std::vector<double> uplink_;
  std::vector<double> downlink_;
  std::vector<double> site_uplink_;
  std::vector<std::uint32_t> host_;
  std::vector<std::uint32_t> site_;
};

// Calls `visit(from, to)` for every directed pair.
template <typename Visit>
void ForEachPath(std::size_t peers, const Visit& visit) {
  for (std::uint32_t from = 0; from < peers; ++from) {
    for (std::uint32_t to = 0; to < peers; ++to) {
      if (from != to) visit(from, to);
    }
  }
}

// Returns the longest of all paths; 0 if none is known.
double LongestDelay(const PathMatrix& paths);

// Assumed rate of a link if no rate at all is known.
inline constexpr double kAssumedRate = 125e6;
// Assumed rate and delay inside a host.
inline constexpr double kAssumedHostRate = 4e9;
inline constexpr double kAssumedHostDelay = 20e-6;

// Fills in unknowns with neutral assumptions, so that an unmeasured path neither attracts nor repels a ring. Inside a
// host kAssumedHostRate and kAssumedHostDelay; else, from paths between hosts,
//   delay        of the reverse path, else the median of the known delays; stays 0 if none is known
//   rate         what the ends allow, else the median of the known link rates, else kAssumedRate
//   uplink       of the host: the best measured at one of its peers, else the best rate of a path that leaves it: paths
//                measured one by one may share an uplink
//   downlink     likewise of a path that enters it, or its measured uplink if that is more; but not if three hosts
//                far from each other that have sent faster to others send it alike, and none sends it more
//   site uplink  the best link rate from the site to another, or its only host's measured uplink if that is more, so
//                that plans do not count on all uplinks of a site at once
// Daemons do not measure downlinks and site uplinks.
// All rates of the result are positive. With one peer there are no paths, and uplink and downlink stay as they are.
PathMatrix WithAssumptions(const PathMatrix& measured);

}  // namespace ringway
