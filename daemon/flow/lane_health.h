// Which of a pair's lanes for small segments to replace by a fresh connection. Pure.
//
// They hardly ever carry enough to show congestion control what the path takes. So one that had to go slow, after a
// timeout, stays slow: bbr was seen at two packets a round trip for as long as such a lane was watched, where a fresh
// connection begins with ten. A lane that may send less than half of what a fresh one may is worn. It is replaced while
// it has nothing on its way.
//
// On a path that is slow indeed the next one will be no better: where a replacement is worn soon, the pause before the
// next doubles, from half a minute to five: a pair whose lanes fail a thousand times an hour is given up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "daemon/flow/backoff.h"
#include "proto/clock.h"

namespace ringway::flow {

// One lane at one moment, in bytes that may leave in a round trip. 0: not known.
struct LaneAllowance {
  std::uint64_t now = 0;
  std::uint64_t fresh = 0;  // at the beginning of a connection
  bool in_use = false;      // something is on its way, or was just now
};

class LaneHealth {
 public:
  // `lanes`: those for small segments. Gives one that is to be replaced now.
  std::optional<std::size_t> Judge(std::span<const LaneAllowance> lanes, TimePoint now);

 private:
  std::vector<Backoff> pauses_;  // by lane
};

}  // namespace ringway::flow
