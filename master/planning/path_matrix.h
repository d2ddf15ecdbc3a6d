// What is known about the paths between the members of a group: the planner's input. Pure.
//
// Peers are named by index, 0 .. size() - 1; index i is rank i of the view that is planned. Paths are directed:
// (from, to) and (to, from) may differ. Units: seconds, one way; bytes per second. 0 means unknown, for all of them.
//
// A plain value; not synchronized. Setters end the process on what is not finite, negative, or no pair of two peers:
// whoever takes numbers from the network has to refuse such before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ringway {

class PathMatrix {
 public:
  static constexpr std::size_t kPeersMax = 16'000;

  // Everything unknown, all peers at site 0. REQUIRES: 1 <= peers <= kPeersMax. Takes 16 bytes a pair.
  explicit PathMatrix(std::size_t peers);

  std::size_t size() const { return site_.size(); }

  double delay(std::size_t from, std::size_t to) const { return delay_[At(from, to)]; }
  void set_delay(std::size_t from, std::size_t to, double seconds);

  // Of the path by itself, with whatever else its ends allow.
  double rate(std::size_t from, std::size_t to) const { return rate_[At(from, to)]; }
  void set_rate(std::size_t from, std::size_t to, double bytes_per_second);

  // What a peer sends, or receives, over all its paths together.
  double uplink(std::size_t peer) const { return uplink_[peer]; }
  void set_uplink(std::size_t peer, double bytes_per_second);
  double downlink(std::size_t peer) const { return downlink_[peer]; }
  void set_downlink(std::size_t peer, double bytes_per_second);

  // What all peers of its site send to other sites together.
  double site_uplink(std::size_t peer) const { return site_uplink_[peer]; }
  void set_site_uplink(std::size_t peer, double bytes_per_second);
  bool crosses(std::size_t from, std::size_t to) const { return site_[from] != site_[to]; }

  std::uint32_t site(std::size_t peer) const { return site_[peer]; }
  void set_site(std::size_t peer, std::uint32_t site) { site_[peer] = site; }

  // What one flow gets that has both ends to itself: the least that is known of path, uplink and downlink.
  double LinkRate(std::size_t from, std::size_t to) const;

  friend bool operator==(const PathMatrix&, const PathMatrix&) = default;

 private:
  std::size_t At(std::size_t from, std::size_t to) const { return from * size() + to; }

  std::vector<double> delay_;
  std::vector<double> rate_;
  std::vector<double> uplink_;
  std::vector<double> downlink_;
  std::vector<double> site_uplink_;
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

// Assumed of a link where no rate at all is known.
inline constexpr double kAssumedRate = 125e6;

// The same with an assumption for everything unknown, so that what was not measured neither draws a ring nor repels it:
//   delay     as the other way round, else the median of the known delays; stays 0 where none is known
//   rate      what the ends allow, else the median of the known link rates, else kAssumedRate
//   uplink    the best rate of a path that leaves the peer: paths that were measured one by one may share one uplink
//   downlink  likewise, of a path that enters it, or its uplink if that was measured and is more: never measured so far
//   site uplink  of a lone peer its uplink if that was measured; else the best link rate between a peer of the site and
//             one elsewhere: never measured so far, it keeps plans from counting on every host's way out at once
// All rates of the result are positive. A lone peer has no paths, and its uplink and downlink stay as they are.
PathMatrix WithAssumptions(const PathMatrix& measured);

}  // namespace ringway
