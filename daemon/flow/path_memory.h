// Rate limits of the paths to other hosts, kept when the pairs that measured them end: a group that forms again on the
// same hosts does not overdrive their paths again. Pure.
//
// Each pair has its own limit while it lives; the next pair to a host starts with the one that was measured last. A
// host is a daemon's name and the address that its connections come from: several may share either.
//
//   measured             the next pair's limit is
//   within kFresh        the same, with everything that was learnt of the path
//   before               an initial one (RateLimit::Assume): the path may have changed
//   without a limit      likewise, somewhat above what passed: kept lanes (net/listener.h) have open windows
//   nothing passed       none
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "daemon/flow/rate_limit.h"
#include "proto/clock.h"

namespace ringway::flow {

class PathMemory {
 public:
  static constexpr std::size_t kHostsMax = 4096;
  static constexpr Duration kFresh = std::chrono::hours(1);

  // `share`: see RateLimit.
  explicit PathMemory(std::uint32_t share) : share_(share) {}

  // Ignored if what is kept was measured later. The host measured longest ago is forgotten if there are too many.
  void Keep(const std::string& host, const RateLimit& rate_limit, TimePoint measured_at);
  // Returns the rate limit that a pair to the host starts with.
  RateLimit Recall(const std::string& host, TimePoint now) const;

 private:
  struct Known {
    RateLimit rate_limit;
    TimePoint measured_at;
  };

  std::uint32_t share_;
  std::map<std::string, Known> hosts_;
};

}  // namespace ringway::flow
