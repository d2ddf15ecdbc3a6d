// The command line of ringway-bench.
#pragma once

#include <ringway/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/bench/baseline.h"
#include "client/bench/check_values.h"

namespace ringway::bench {

struct Options {
  std::string socket_path = "/run/ringway/ringwayd.sock";
  std::string group;
  std::uint32_t world = 0;
  std::uint32_t groups = 1;          // at once, a process each
  std::vector<std::uint64_t> sizes;  // empty: from min_bytes to max_bytes
  std::uint64_t min_bytes = 4096;
  std::uint64_t max_bytes = std::uint64_t{256} << 20;
  std::uint64_t factor = 4;
  OpKind collective = OpKind::kAllReduce;
  Reduction reduction;
  std::optional<Algorithm> algorithm;  // nullopt: the plan's choice
  double line_mbit = 0;                // of this host's uplink; 0: not known
  std::uint32_t iterations = 20;
  std::uint32_t warmup = 3;
  std::chrono::seconds settle{};  // wait for better plans before the first size is measured
  std::uint32_t in_flight = 1;
  std::uint32_t tensors = 1;   // that the buffer is of, of an all_reduce (Session::AllReduceMany)
  std::uint32_t priority = 0;  // of what is measured; the companion has 0
  Quorum quorum;               // of what is measured
  std::chrono::milliseconds grace{};
  Late late = Late::kDropped;
  std::uint64_t beside_bytes = 0;  // size of the companion in a second measurement; 0: no second one
  bool in_place = false;
  std::optional<std::int32_t> device;  // whose memory to reduce; nullopt: shared memory of the host
  bool check = false;
  std::vector<Baseline> baselines;  // to compare with, after each size
  std::string json_path;
  std::chrono::milliseconds timeout = std::chrono::minutes(5);

  // The sizes to measure, as given or smallest first, each a multiple of the element's size.
  std::vector<std::uint64_t> Sizes() const;
};

// Run with `options`, or exit with a status after showing `message`.
struct ParsedOptions {
  Options options;
  std::optional<int> exit_status;
  std::string message;
};
ParsedOptions ParseOptions(int argc, const char* const* argv);

}  // namespace ringway::bench
