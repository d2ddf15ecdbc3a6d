// Shared by the Gloo and the Open MPI baselines: command line, clock, CPU time, JSON file.
//
// Standalone, because compare.sh builds the baselines without Ringway. The fields of the JSON file are those of
// ringway-bench that compare.sh reads.
#pragma once

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

namespace baseline {

struct Options {
  std::uint64_t bytes = 4096;
  int iterations = 20;
  int warmup = 3;
  int rank = 0;
  int world = 1;
  std::string store;                  // directory where Gloo's ranks find each other
  std::string address = "127.0.0.1";  // on which Gloo's rank listens
  std::string algorithm;              // of Gloo's; empty: the fastest
  std::string json;                   // "%r" becomes the rank
};

// Options come in pairs: --bytes N --iters N --warmup N --json FILE, and for Gloo --rank N --world N --store DIR
// --address IP --algorithm NAME.
inline Options ParseOptions(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    const char* const value = argv[i + 1];
    if (name == "--bytes") options.bytes = std::strtoull(value, nullptr, 10);
    if (name == "--iters") options.iterations = std::max(1, std::atoi(value));
    if (name == "--warmup") options.warmup = std::atoi(value);
    if (name == "--rank") options.rank = std::atoi(value);
    if (name == "--world") options.world = std::atoi(value);
    if (name == "--store") options.store = value;
    if (name == "--address") options.address = value;
    if (name == "--algorithm") options.algorithm = value;
    if (name == "--json") options.json = value;
  }
  return options;
}

inline double NowMs() {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

inline double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

struct Measured {
  double began_s = 0;            // of the monotonic clock, when the first measured operation began
  std::vector<double> times_ms;  // in order
  double time_ms_min = 0;
  double time_ms_median = 0;
  double cpu_seconds = 0;
};

// Runs `operation` warmup + iterations times.
inline Measured Measure(const Options& options, const std::function<void()>& operation) {
  for (int i = 0; i < options.warmup; ++i) operation();
  Measured measured;
  measured.began_s = NowMs() / 1e3;
  const double cpu_before = CpuSeconds();
  for (int i = 0; i < options.iterations; ++i) {
    const double start = NowMs();
    operation();
    measured.times_ms.push_back(NowMs() - start);
  }
  measured.cpu_seconds = CpuSeconds() - cpu_before;
  std::vector<double> times = measured.times_ms;
  std::sort(times.begin(), times.end());
  const std::size_t middle = times.size() / 2;
  measured.time_ms_min = times.front();
  measured.time_ms_median = times.size() % 2 == 1 ? times[middle] : (times[middle - 1] + times[middle]) / 2;
  return measured;
}

// Returns the process's exit status.
inline int WriteJson(const Options& options, const char* algorithm, const Measured& measured) {
  std::string path = options.json;
  if (const std::size_t at = path.find("%r"); at != std::string::npos)
    path.replace(at, 2, std::to_string(options.rank));
  std::FILE* const file = std::fopen(path.c_str(), "w");
  if (file == nullptr) {
    std::perror(path.c_str());
    return 2;
  }
  std::string times;
  for (const double time_ms : measured.times_ms) times += (times.empty() ? "" : ", ") + std::to_string(time_ms);
  std::fprintf(file,
               "{\"results\": [{\"bytes\": %llu, \"world_size\": %d, \"iterations\": %d, \"algorithm\": \"%s\", "
               "\"time_ms_min\": %.6f, \"time_ms_median\": %.6f, \"trainer_cpu_seconds\": %.6f, "
               "\"daemon_cpu_seconds\": 0, \"began_s\": %.6f, \"times_ms\": [%s]}]}\n",
               static_cast<unsigned long long>(options.bytes), options.world, options.iterations, algorithm,
               measured.time_ms_min, measured.time_ms_median, measured.cpu_seconds, measured.began_s, times.c_str());
  return std::fclose(file) == 0 ? 0 : 2;
}

}  // namespace baseline
