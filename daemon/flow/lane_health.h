// Which of a pair's lanes for small segments is unhealthy and is to be replaced by a fresh connection. Pure.
//
// Small lanes rarely carry enough for congestion control to learn the path. A lane that collapsed after a
// retransmission timeout therefore stays slow: bbr was seen at two packets a round trip for as long as such a lane was
// watched, where a fresh connection starts with ten. A lane is unhealthy if its window is under half of a fresh
// connection's. It is replaced while it is idle.
//
// On a slow path the replacement is no better. Attempts for one lane therefore back off exponentially, from 30 s to
// five minutes (backoff.h): a pair whose lanes fail a thousand times an hour is given up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "daemon/flow/backoff.h"
#include "proto/clock.h"

namespace ringway::flow {

// Congestion window of one lane at one moment, in bytes. 0: not known.
struct LaneAllowance {
  std::uint64_t now = 0;
  std::uint64_t fresh = 0;  // of a fresh connection
  bool in_use = false;      // data is in flight, or was within the last round trip
};

class LaneHealth {
 public:
  // `lanes`: those for small segments. Returns one that is to be replaced now.
  std::optional<std::size_t> Judge(std::span<const LaneAllowance> lanes, TimePoint now);

 private:
  std::vector<Backoff> pauses_;  // by lane
};

}  // namespace ringway::flow
