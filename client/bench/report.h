// The table and the JSON file of ringway-bench.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/bench/baseline.h"
#include "client/bench/check_values.h"
#include "client/bench/lane_usage.h"
#include "client/bench/process_usage.h"
#include "client/bench/statistics.h"

namespace ringway::bench {

// The same operations beside a large one. Only those count that began and ended while it was in flight.
struct BesideResult {
  std::uint64_t bytes = 0;       // of the large one
  std::vector<double> times_ms;  // of those that count
  TimeSummary time;              // of these; zeros if there are none
};

// One size. Times are of one operation: an iteration's time divided by the operations in flight.
struct SizeResult {
  std::uint64_t bytes = 0;
  OpKind collective = OpKind::kAllReduce;
  std::uint64_t count = 0;        // elements of the buffer
  std::uint64_t input_count = 0;  // of a rank's input
  Reduction reduction;
  std::uint32_t world_before = 0;  // when it began
  std::uint32_t world_size = 0;    // of the last result
  std::uint32_t in_flight = 1;
  std::uint32_t tensors = 1;
  bool in_place = false;
  std::optional<std::int32_t> device;  // whose memory; nullopt: the host's
  std::uint32_t iterations = 0;
  std::vector<double> times_ms;  // of each iteration, in order
  double began_s = 0;            // of the monotonic clock, when the first of them began
  TimeSummary time;              // of these
  double algbw_gb_per_s = 0;     // of the median, GB/s
  double busbw_gb_per_s = 0;
  std::uint64_t wire_bytes = 0;            // sent by this peer, a mean over the measured operations
  double line_fraction = 0;                // share of --line-mbit used in the median time, without TCP and IP headers
  Algorithm algorithm = Algorithm::kRing;  // of the last result
  std::uint64_t retries = 0;               // of all measured operations
  std::uint64_t inputs = 0;                // of these, of all ranks
  std::uint64_t inputs_late = 0;           // that they went on without
  bool checked = false;
  std::optional<LaneUsage> lanes;  // at the end; retransmits during the measured operations
  std::uint64_t wrong = 0;         // elements, over all measured operations
  std::optional<BesideResult> beside;
  std::vector<BaselineResult> baselines;  // as this rank measured them
  // CPU seconds of the measured iterations (with those of --check), memory at their end.
  ProcessUsage trainer;
  ProcessUsage daemon;
};

// CPU seconds of the daemon for each GiB that it sent for the measured operations (it receives about as much). nullopt
// if it sent nothing, or its CPU time is unknown.
std::optional<double> DaemonCpuSecondsPerGib(const SizeResult& result);

std::string TableHeader();
// Includes lines for the measurement beside a large operation and for other systems.
std::string TableRow(const SizeResult& result);

// The line that says how many inputs were late; "" if none was.
std::string LateRow(std::uint64_t late, std::uint64_t inputs);

// {"results": [...]}; `rank` is the rank that measured.
std::string ToJson(const std::vector<SizeResult>& results, std::uint32_t rank);

// Checks before the measurement whether WriteFile can write there. Returns what is wrong, or "".
std::string CheckWritable(const std::string& path);

// Replaces the file in one step, so that readers see all or nothing. Returns what is wrong, or "".
std::string WriteFile(const std::string& path, const std::string& text);

}  // namespace ringway::bench
