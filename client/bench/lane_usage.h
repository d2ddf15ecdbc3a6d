// Lane counters of this rank's daemon, from its status.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace ringway::bench {

struct LaneUsage {
  std::uint64_t lanes = 0;        // in use, of the pair with the most
  std::uint64_t retransmits = 0;  // by the kernel, on the lanes of all pairs that are up
};

// Returns the usage of the membership `peer_id` at the daemon on this socket, whose answer is awaited for at most a
// second; nullopt if the daemon does not report it.
std::optional<LaneUsage> LaneUsageOf(const std::string& socket_path, std::uint64_t peer_id);

// The same from the daemon's status.
std::optional<LaneUsage> ParseLaneUsage(const std::string& status_json, std::uint64_t peer_id);

}  // namespace ringway::bench
