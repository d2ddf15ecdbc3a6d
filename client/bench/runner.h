// Runs the operations of a benchmark in one session and measures them.
//
// Buffers are allocated once for the largest size, one pair for each operation in flight. One thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <ringway/ringway.hpp>
#include <vector>

#include "client/bench/companion.h"
#include "client/bench/memory.h"
#include "client/bench/options.h"
#include "client/bench/report.h"

namespace ringway::bench {

class Runner {
 public:
  // `daemon_pid`: whose CPU time and memory to report, or 0.
  Runner(const Options& options, Session* session, int daemon_pid);

  // Measures all sizes; calls `on_result` after each.
  Result<std::vector<SizeResult>> Run(const std::function<void(const SizeResult&)>& on_result);

  // Returns when every rank has called it.
  Status Barrier() { return Most(0).status(); }

 private:
  // Summed over the iterations of a size.
  struct Totals {
    std::uint64_t wire_bytes = 0;
    std::uint64_t operations = 0;
    std::uint64_t inputs = 0;  // of all ranks
    std::uint64_t late = 0;    // of these
  };

  // Returns the maximum of all ranks' values.
  Result<std::uint64_t> Most(std::uint64_t value);
  // Adopts prepared views on all ranks until `wait` has passed on one of them.
  Status AdoptViews(std::chrono::milliseconds wait);
  Status AllocateBuffers();
  Result<SizeResult> RunSize(std::uint64_t bytes);
  Status WarmUp(SizeResult* result);
  Status Measure(SizeResult* result);
  Status MeasureBeside(SizeResult* result);
  Status MeasureBaselines(SizeResult* result);
  Result<double> RunIteration(SizeResult* result, Totals* totals);
  // The name for one size and one operation in flight; empty: no error feedback.
  std::string FeedbackName(const SizeResult& result, std::uint32_t operation) const;
  Status FillInputs(const SizeResult& result);
  Status CheckOutputs(const std::vector<OpResult>& outcomes, SizeResult* result);
  Memory& Output(std::size_t index) { return options_.in_place ? inputs_[index] : outputs_[index]; }

  const Options& options_;
  Session* const session_;
  const int daemon_pid_;
  std::optional<Companion> companion_;  // with --beside
  std::vector<Memory> inputs_;
  std::vector<Memory> outputs_;
  std::uint64_t iteration_ = 0;  // names the inputs; the same on all ranks
};

}  // namespace ringway::bench
