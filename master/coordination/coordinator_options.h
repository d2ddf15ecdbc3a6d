// The settings of a master, and those of its groups that follow from them. A value.
#pragma once

#include <cstdint>

#include "master/coordination/group_options.h"
#include "proto/permits.h"

namespace ringway {

struct CoordinatorOptions {
  std::uint32_t term = 1;      // upper half of epochs; without a journal every master has the same
  std::uint64_t instance = 0;  // random number of this process
  bool journaled = false;
  bool names_proven = false;  // daemons' names are those on their certificates
  Permits permits = {};       // which daemons may join which groups
  std::uint32_t heartbeat_ms = 500;
  std::uint32_t detect_ms = 3000;             // detection time: silence of daemons here, and between members nearby
  std::uint32_t detect_far_ms = 0;            // between members that are far apart; at least detect_ms
  std::uint32_t partition_grace_ms = 30'000;  // how long a recovery waits if most of the group is unheard
  std::uint32_t forget_ms = 3'600'000;        // a group is deleted after no member was heard for so long
  Pricing pricing = {};
  std::uint64_t segment_bytes_max = 256 * 1024;
  std::uint64_t small_bytes_max = 64 * 1024;
  std::uint64_t retained_bytes_max = 16 << 20;  // upper bound; lowered where waiting for DONE is cheaper than a copy
  std::uint64_t eager_bytes_max = 4 << 20;
};

// Time to reconnect after a restart of the master or an outage of its network, on top of the detection time.
inline constexpr Duration kReturn = std::chrono::seconds(3);

GroupOptions OptionsOfGroups(const CoordinatorOptions& options);

}  // namespace ringway
