// Path matrices for the planner's tests.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "master/planning/path_matrix.h"

namespace ringway {

inline constexpr std::uint64_t kKiB = 1024;
inline constexpr std::uint64_t kMiB = 1024 * kKiB;

// All delays the same, all uplinks and downlinks the same, paths no limit.
inline PathMatrix UniformWorld(std::size_t peers, double delay_seconds, double uplink) {
  PathMatrix paths(peers);
  ForEachPath(peers, [&](std::size_t from, std::size_t to) {
    paths.set_delay(from, to, delay_seconds);
    paths.set_rate(from, to, 1000 * uplink);
  });
  for (std::size_t peer = 0; peer < peers; ++peer) {
    paths.set_uplink(peer, uplink);
    paths.set_downlink(peer, uplink);
  }
  return paths;
}

inline std::vector<std::uint32_t> Identity(std::size_t peers) {
  std::vector<std::uint32_t> ring(peers);
  std::iota(ring.begin(), ring.end(), 0U);
  return ring;
}

// Eight classes of rates with some noise in each, and delays of whole milliseconds: few values, so that ties are
// common.
inline constexpr int kRateClasses = 8;
inline double RateOfClass(int rate_class) { return 100e6 / std::pow(1.5, rate_class); }
inline int ClassOfRate(double rate) { return static_cast<int>(std::lround(std::log(100e6 / rate) / std::log(1.5))); }

// Every directed path on its own, from a seed. Sites 0 and 1.
inline PathMatrix RandomWorld(std::size_t peers, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&random](std::uint64_t bound) { return static_cast<std::size_t>(random() % bound); };
  const std::uint64_t delays = 1 + below(40);  // 1: all equal
  PathMatrix paths(peers);
  ForEachPath(peers, [&](std::size_t from, std::size_t to) {
    paths.set_delay(from, to, 1e-3 * static_cast<double>(1 + below(delays)));
    paths.set_rate(from, to, RateOfClass(static_cast<int>(below(kRateClasses))) * (below(2) == 0 ? 1 : 0.96));
  });
  for (std::size_t peer = 0; peer < peers; ++peer) paths.set_site(peer, static_cast<std::uint32_t>(below(2)));
  return paths;
}

}  // namespace ringway
