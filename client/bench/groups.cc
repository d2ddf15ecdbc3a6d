#include "client/bench/groups.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "client/bench/report.h"
#include "client/bench/statistics.h"

namespace ringway::bench {
namespace {

using Json = nlohmann::json;

// The directory where the groups' processes leave their results.
class Drop {
 public:
  Drop() {
    std::string pattern = (std::filesystem::temp_directory_path() / "ringway_bench_XXXXXX").string();
    if (mkdtemp(pattern.data()) != nullptr) path_ = pattern;
  }
  ~Drop() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  Drop(const Drop&) = delete;
  Drop& operator=(const Drop&) = delete;
  bool usable() const { return !path_.empty(); }
  std::string FileOf(std::uint32_t group) const { return path_ + "/" + std::to_string(group) + ".json"; }

 private:
  std::string path_;
};

[[noreturn]] void BeGroup(const Options& options, pid_t parent, const std::function<int(const Options&)>& run) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(2);  // it ended before the line above
  const int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
  dup2(null, STDOUT_FILENO);
  const int status = run(options);
  std::fflush(nullptr);
  _exit(status);
}

double Mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

GroupSize SizeIn(const Json& result) {
  return {.bytes = result["bytes"], .times_ms = result["times_ms"], .wrong = result["wrong"]};
}

// A row for each size, of what all groups' processes have measured.
std::string Table(const std::vector<Json>& groups) {
  std::string out;
  for (std::size_t size = 0; size < groups.front()["results"].size(); ++size) {
    std::vector<GroupSize> row;
    for (const Json& group : groups) row.push_back(SizeIn(group["results"][size]));
    out += GroupsRow(row);
  }
  return out;
}

int WaitForAll(const std::vector<pid_t>& processes) {
  int worst = 0;
  for (const pid_t process : processes) {
    int status = 0;
    while (waitpid(process, &status, 0) < 0 && errno == EINTR) continue;
    worst = std::max(worst, WIFEXITED(status) ? WEXITSTATUS(status) : 2);
  }
  return worst;
}

}  // namespace

double JainIndex(const std::vector<double>& shares) {
  double sum = 0;
  double squares = 0;
  for (const double share : shares) {
    sum += share;
    squares += share * share;
  }
  return sum * sum / (static_cast<double>(shares.size()) * squares);
}

std::string GroupsRow(const std::vector<GroupSize>& groups) {
  std::vector<double> medians, rates;
  std::uint64_t wrong = 0;
  for (const GroupSize& group : groups) {
    medians.push_back(Summarise(group.times_ms).median_ms);
    rates.push_back(AlgorithmBandwidth(group.bytes, Mean(group.times_ms)));
    wrong += group.wrong;
  }
  const auto [fastest, slowest] = std::minmax_element(medians.begin(), medians.end());
  char text[256];
  std::snprintf(text, sizeof text, "%14llu %6zu %10.3f %10.3f %10.3f %8.3f %6.3f %8llu\n",
                static_cast<unsigned long long>(groups.front().bytes), groups.size(), *fastest,
                Summarise(medians).median_ms, *slowest, std::accumulate(rates.begin(), rates.end(), 0.0),
                JainIndex(rates), static_cast<unsigned long long>(wrong));
  return text;
}

int RunGroups(const Options& options, const std::function<int(const Options&)>& run) {
  const Drop drop;
  if (!drop.usable()) {
    std::fprintf(stderr,
                 "ringway-bench: no directory for the groups' results; set TMPDIR to one that can be written\n");
    return 2;
  }
  std::fflush(nullptr);
  const pid_t self = getpid();
  std::vector<pid_t> processes;
  for (std::uint32_t group = 0; group < options.groups; ++group) {
    Options own = options;
    own.group += "." + std::to_string(group);
    own.json_path = drop.FileOf(group);
    const pid_t process = fork();
    if (process == 0) BeGroup(own, self, run);
    if (process > 0) processes.push_back(process);
  }
  int status = WaitForAll(processes);
  if (processes.size() < options.groups) {
    std::fprintf(stderr, "ringway-bench: a process for each group cannot be started; raise ulimit -u\n");
    status = 2;
  }
  if (status == 2) return status;  // a process has said why
  std::vector<Json> results;
  for (std::uint32_t group = 0; group < options.groups; ++group) {
    results.push_back(Json::parse(std::ifstream(drop.FileOf(group))));
  }
  if (results.front()["rank"] == 0) {
    std::printf(
        "# ringway-bench %s, %u groups at once, world %u, codec %s, %u iterations; medians in ms of the fastest, the "
        "median and the slowest group; GB/s of all\n#%13s %6s %10s %10s %10s %8s %6s %8s\n%s",
        NameOf(options.collective), options.groups, options.world, NameOf(options.reduction.codec), options.iterations,
        "bytes", "groups", "fastest", "median", "slowest", "algbw", "Jain", "wrong", Table(results).c_str());
  }
  if (options.json_path.empty()) return status;
  const std::string problem = WriteFile(options.json_path, Json({{"groups", results}}).dump(2) + "\n");
  if (!problem.empty()) std::fprintf(stderr, "ringway-bench: %s\n", problem.c_str());
  return problem.empty() ? status : 2;
}

}  // namespace ringway::bench
