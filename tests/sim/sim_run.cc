// sim_run --seeds N --first S [--trace]: runs random worlds; prints what they did and every seed that broke a rule.
// --trace: runs one seed and prints everything that happens in it.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

#include "tests/sim/world.h"

namespace {

using ringway::sim::RunWorld;
using ringway::sim::WorldReport;

constexpr std::size_t kTraceLines = 150;
volatile std::uint64_t current_seed = 0;

// A broken invariant of the product ends the process: say where.
void OnAbort(int) { std::fprintf(stderr, "in seed %llu\n", static_cast<unsigned long long>(current_seed)); }

void PrintTrace(const WorldReport& report, std::size_t lines) {
  const std::size_t first = report.trace.size() > lines ? report.trace.size() - lines : 0;
  for (std::size_t i = first; i < report.trace.size(); ++i) std::printf("%s\n", report.trace[i].c_str());
}

}  // namespace

int main(int argc, char** argv) {
  std::uint64_t seeds = 1000, first = 1;
  bool trace = false;
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    if (option == "--trace") {
      trace = true;
    } else if (option == "--seeds" && i + 1 < argc) {
      seeds = std::strtoull(argv[++i], nullptr, 10);
    } else if (option == "--first" && i + 1 < argc) {
      first = std::strtoull(argv[++i], nullptr, 10);
    } else {
      std::fprintf(stderr, "usage: sim_run [--seeds N] [--first S] [--trace]\n");
      return 2;
    }
  }
  std::signal(SIGABRT, OnAbort);
  if (trace) seeds = 1;
  std::map<std::string, std::uint64_t> counts;
  std::uint64_t events = 0, failures = 0;
  for (std::uint64_t seed = first; seed < first + seeds; ++seed) {
    current_seed = seed;
    WorldReport report = RunWorld(seed, trace);
    events += report.events;
    for (const auto& [what, count] : report.counts) counts[what] += count;
    if (trace) PrintTrace(report, report.trace.size());
    if (report.failure.empty()) continue;
    ++failures;
    if (!trace && failures == 1) PrintTrace(RunWorld(seed, true), kTraceLines);
    std::printf("seed %llu: %s\n", static_cast<unsigned long long>(seed), report.failure.c_str());
  }
  for (const auto& [what, count] : counts) {
    std::printf("%10llu %s\n", static_cast<unsigned long long>(count), what.c_str());
  }
  std::printf("%llu seeds, %llu events, %llu failures\n", static_cast<unsigned long long>(seeds),
              static_cast<unsigned long long>(events), static_cast<unsigned long long>(failures));
  return failures == 0 ? 0 : 1;
}
