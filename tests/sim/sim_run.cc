// sim_run --seeds N --first S [--trace]: runs random worlds; prints what they did and every seed that broke a rule.
// --trace: runs one seed and prints everything that happens in it.
// --history DIR: writes each world's history to DIR/SEED.jsonl, for check_history.py (tests/history), and judges
// nothing of it. mutants_run alone: --mutant NAME: with that bug planted (proto/mutation.h); --rules: how often each
// rule of the protocol was applied (proto/rules.h), and in which of these worlds first. Those never applied come first.
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "proto/mutation.h"
#include "proto/rules.h"
#include "tests/history/history.h"
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

struct Options {
  std::uint64_t seeds = 1000, first = 1, step = 1;
  bool trace = false;
  bool rules = false;
  std::string histories;
};

#ifdef RINGWAY_MUTANTS
constexpr bool kCountsRules = true;
std::uint64_t Reached(std::size_t rule) { return ringway::rules::reached[rule]; }
#else
constexpr bool kCountsRules = false;
std::uint64_t Reached(std::size_t) { return 0; }
#endif

using FirstSeeds = std::map<std::size_t, std::uint64_t>;  // by rule

void NoteRules(std::uint64_t seed, FirstSeeds* first) {
  for (std::size_t rule = 0; rule < ringway::rules::kRules.size(); ++rule) {
    if (Reached(rule) > 0) first->try_emplace(rule, seed);
  }
}

void PrintRules(const FirstSeeds& first) {
  std::vector<std::size_t> order(ringway::rules::kRules.size());
  for (std::size_t rule = 0; rule < order.size(); ++rule) order[rule] = rule;
  std::stable_sort(order.begin(), order.end(), [](std::size_t a, std::size_t b) { return Reached(a) < Reached(b); });
  std::printf("%12s %7s rule\n", "applied", "seed");
  for (const std::size_t rule : order) {
    const auto seed = first.find(rule);
    const ringway::rules::NamedRule& named = ringway::rules::kRules[rule];
    std::printf("%12llu %7s %s: %s\n", static_cast<unsigned long long>(Reached(rule)),
                seed == first.end() ? "-" : std::to_string(seed->second).c_str(), named.name, named.row);
  }
  std::printf("%zu rules, %zu of them never applied\n", order.size(), order.size() - first.size());
}

// Returns false if this program has no such bug.
bool Plant(const std::string& name) {
#ifdef RINGWAY_MUTANTS
#define RINGWAY_PLANT(mutant, rule) \
  if (name == #mutant) return ringway::mutation::active = ringway::mutation::Mutant::mutant, true;
  RINGWAY_EACH_MUTANT(RINGWAY_PLANT)
#undef RINGWAY_PLANT
#endif
  return name.empty();
}

bool Parse(int argc, char** argv, Options* options) {
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    if (option == "--trace") {
      options->trace = true;
      continue;
    }
    if (kCountsRules && option == "--rules") {
      options->rules = true;
      continue;
    }
    const std::string value = i + 1 < argc ? argv[++i] : "";
    std::uint64_t* const number = option == "--seeds"   ? &options->seeds
                                  : option == "--first" ? &options->first
                                  : option == "--step"  ? &options->step
                                                        : nullptr;
    if (number != nullptr && !value.empty()) {
      *number = std::strtoull(value.c_str(), nullptr, 10);
    } else if (option == "--history" && !value.empty()) {
      options->histories = value;
    } else if (option != "--mutant" || value.empty() || !Plant(value)) {
      return false;
    }
  }
  return true;
}

WorldReport Run(std::uint64_t seed, const Options& options) {
  if (options.histories.empty()) return RunWorld(seed, options.trace);
  const ringway::history::Writer writer(options.histories + "/" + std::to_string(seed) + ".jsonl");
  if (!writer.on()) std::fprintf(stderr, "cannot write to %s\n", options.histories.c_str()), std::exit(2);
  return RunWorld(seed, options.trace, {.history = &writer, .judges = false});
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (!Parse(argc, argv, &options)) {
    std::fprintf(
        stderr,
        "usage: sim_run [--seeds N] [--first S] [--step N] [--trace] [--history DIR] [--mutant NAME] [--rules]\n");
    return 2;
  }
  std::signal(SIGABRT, OnAbort);
  if (options.trace) options.seeds = 1;
  std::map<std::string, std::uint64_t> counts;
  FirstSeeds first_seeds;
  std::uint64_t events = 0, failures = 0;
  for (std::uint64_t i = 0; i < options.seeds; ++i) {
    const std::uint64_t seed = options.first + i * options.step;
    current_seed = seed;
    WorldReport report = Run(seed, options);
    events += report.events;
    NoteRules(seed, &first_seeds);
    for (const auto& [what, count] : report.counts) counts[what] += count;
    if (options.trace) PrintTrace(report, report.trace.size());
    if (report.failure.empty()) continue;
    ++failures;
    if (!options.trace && failures == 1 && options.histories.empty()) PrintTrace(RunWorld(seed, true), kTraceLines);
    std::printf("seed %llu: %s\n", static_cast<unsigned long long>(seed), report.failure.c_str());
  }
  for (const auto& [what, count] : counts) {
    std::printf("%10llu %s\n", static_cast<unsigned long long>(count), what.c_str());
  }
  if (options.rules) PrintRules(first_seeds);
  std::printf("%llu seeds, %llu events, %llu failures\n", static_cast<unsigned long long>(options.seeds),
              static_cast<unsigned long long>(events), static_cast<unsigned long long>(failures));
  return failures == 0 ? 0 : 1;
}
