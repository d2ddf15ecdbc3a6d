// Another system, measured for comparison: a command that every rank runs for each size.
//
// {rank}, {world}, {bytes}, {iters}, {warmup} and {json} are replaced in the command. It measures an all-reduce of
// {bytes} bytes of float32 and writes to the file {json} what ringway-bench writes: an object with "results", a list of
// one object with "time_ms_median" and optionally "time_ms_min", "algorithm", "iterations" and "trainer_cpu_seconds".
// A rank whose command writes no file (one rank may start all) took part without a measurement of its own.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <ringway/ringway.hpp>
#include <string>

namespace ringway::bench {

struct Baseline {
  std::string name;
  std::string command;  // for sh
};

struct BaselineRun {
  std::uint32_t rank = 0;
  std::uint32_t world = 0;
  std::uint64_t bytes = 0;
  std::uint32_t iterations = 0;
  std::uint32_t warmup = 0;
};

struct BaselineResult {
  std::string name;
  std::string failed{};  // why nothing was measured; "" on success
  std::string algorithm{};
  std::uint32_t iterations = 0;
  double time_ms_min = 0;  // 0: not known
  double time_ms_median = 0;
  double trainer_cpu_seconds = 0;
};

// Parses NAME=COMMAND; nullopt if it is malformed.
std::optional<Baseline> ParseBaseline(const std::string& text);

std::string CommandOf(const Baseline& baseline, const BaselineRun& run, const std::string& json_path);

// Runs it to its end, for at most `timeout`; its output goes to standard error. kIo if it fails, or writes something
// else.
Result<std::optional<BaselineResult>> RunBaseline(const Baseline& baseline, const BaselineRun& run,
                                                  std::chrono::seconds timeout);

}  // namespace ringway::bench
