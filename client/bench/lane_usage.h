// How the connections of this rank's daemon fare, as the daemon says.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace ringway::bench {

struct LaneUsage {
  std::uint64_t lanes = 0;        // that are in use, of the pair that has most
  std::uint64_t retransmits = 0;  // by the kernel, on the lanes of all pairs that are up
};

// Of the membership `peer_id` at the daemon on this socket; waits for its answer for a second at most. Nothing if it
// does not say.
std::optional<LaneUsage> LaneUsageOf(const std::string& socket_path, std::uint64_t peer_id);

// The same from the daemon's status.
std::optional<LaneUsage> ParseLaneUsage(const std::string& status_json, std::uint64_t peer_id);

}  // namespace ringway::bench
