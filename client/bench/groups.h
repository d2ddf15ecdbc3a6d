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
  bool checked = false;           // whether `wrong` says anything
  std::uint64_t inputs = 0;       // of all ranks in all operations
  std::uint64_t inputs_late = 0;  // of these, that operations went on without
};

// Takes results as JSON; returns what is wrong, or "".
using Sink = std::function<std::string(const std::string& json)>;

// (sum x)^2 / (n sum x^2): 1 where all are equal, 1/n where one has everything. REQUIRES: a positive one.
double JainIndex(const std::vector<double>& shares);

// The table's line for one size of all groups, and one of what was late.
std::string GroupsRow(const std::vector<GroupSize>& groups);

// Calls `run` in a process of its own for each of options.groups groups, NAME.0, NAME.1 and so on, waits for all,
// prints a table of them on rank 0 of the first, and writes all results to options.json_path. Leaves nothing behind
// however it ends. Returns the worst exit status; of 2, somebody has said why. Call before any thread is started.
int RunGroups(const Options& options, const std::function<int(const Options&, const Sink&)>& run);

}  // namespace ringway::bench
