// Several groups at once, a process each, as of a host whose local ranks shard a model: eight groups, each with one
// rank on every host, share the hosts' lines.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "client/bench/options.h"

namespace ringway::bench {

// What the process of one group measured of one size.
struct GroupSize {
  std::uint64_t bytes = 0;
  std::vector<double> times_ms;
  std::uint64_t wrong = 0;
};

// (sum x)^2 / (n sum x^2): 1 where all are equal, 1/n where one has everything. REQUIRES: a positive one.
double JainIndex(const std::vector<double>& shares);

// The table's line for one size of all groups.
std::string GroupsRow(const std::vector<GroupSize>& groups);

// Calls `run` in a process of its own for each of options.groups groups, NAME.0, NAME.1 and so on, waits for all,
// prints a table of them on rank 0 of the first, and writes all results to options.json_path. Returns the worst exit
// status. Call before any thread is started.
int RunGroups(const Options& options, const std::function<int(const Options&)>& run);

}  // namespace ringway::bench
