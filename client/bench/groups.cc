#include "client/bench/groups.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "client/bench/report.h"
#include "client/bench/statistics.h"
#include "proto/stream/unique_fd.h"

namespace ringway::bench {
namespace {

using Json = nlohmann::json;

struct Group {
  std::string name;
  pid_t process = -1;
  net::UniqueFd results;  // a file without a name, which its process writes

  std::string Text() const {
    struct stat facts {};
    if (::fstat(results.get(), &facts) != 0) return "";
    std::string text(static_cast<std::size_t>(facts.st_size), '\0');
    const ssize_t read = ::pread(results.get(), text.data(), text.size(), 0);
    text.resize(static_cast<std::size_t>(std::max<ssize_t>(read, 0)));
    return text;
  }
};

std::string WriteTo(int fd, const std::string& text) {
  errno = ENOSPC;  // of a write that is cut short
  if (::pwrite(fd, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size())) return "";
  return std::string("cannot keep the results: ") + std::strerror(errno);
}

using Run = std::function<int(const Options&, const Sink&)>;

[[noreturn]] void BeGroup(const Options& options, pid_t parent, int results, const Run& run) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(2);  // it ended before the line above
  const int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
  dup2(null, STDOUT_FILENO);
  const int status = run(options, [results](const std::string& json) { return WriteTo(results, json); });
  std::fflush(nullptr);
  _exit(status);
}

std::vector<Group> Start(const Options& options, const Run& run) {
  std::fflush(nullptr);
  const pid_t self = getpid();
  std::vector<Group> groups;
  for (std::uint32_t i = 0; i < options.groups; ++i) {
    Options own = options;
    own.group += "." + std::to_string(i);
    own.json_path.clear();
    net::UniqueFd results(memfd_create("ringway-bench", MFD_CLOEXEC));
    const pid_t process = results.valid() ? fork() : -1;
    if (process == 0) BeGroup(own, self, results.get(), run);
    if (process > 0) groups.push_back({.name = own.group, .process = process, .results = std::move(results)});
  }
  return groups;
}

double Mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

GroupSize SizeIn(const Json& result) {
  return {.bytes = result["bytes"],
          .times_ms = result["times_ms"],
          .wrong = result["wrong"],
          .checked = result["checked"],
          .inputs = result["inputs"],
          .inputs_late = result["inputs_late"]};
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

int WaitForAll(const std::vector<Group>& groups) {
  int worst = 0;
  for (const Group& group : groups) {
    int status = 0;
    while (waitpid(group.process, &status, 0) < 0 && errno == EINTR) continue;
    if (WIFSIGNALED(status)) {
      std::fprintf(stderr, "ringway-bench: the process of group %s was ended by signal %d (%s)\n", group.name.c_str(),
                   WTERMSIG(status), strsignal(WTERMSIG(status)));
    }
    worst = std::max(worst, WIFEXITED(status) ? WEXITSTATUS(status) : 2);
  }
  return worst;
}

// N/A where nothing was moved.
std::string JainText(const std::vector<double>& rates) {
  if (std::none_of(rates.begin(), rates.end(), [](double rate) { return rate > 0; })) return "N/A";
  char text[32];
  std::snprintf(text, sizeof text, "%.3f", JainIndex(rates));
  return text;
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
  GroupSize all;
  all.checked = true;
  for (const GroupSize& group : groups) {
    medians.push_back(Summarise(group.times_ms).median_ms);
    rates.push_back(AlgorithmBandwidth(group.bytes, Mean(group.times_ms)));
    all.wrong += group.wrong;
    all.checked = all.checked && group.checked;
    all.inputs += group.inputs;
    all.inputs_late += group.inputs_late;
  }
  const auto [fastest, slowest] = std::minmax_element(medians.begin(), medians.end());
  const std::string wrong = all.checked ? std::to_string(all.wrong) : "N/A";
  char text[256];
  std::snprintf(text, sizeof text, "%14llu %6zu %10.3f %10.3f %10.3f %8.3f %6s %8s\n",
                static_cast<unsigned long long>(groups.front().bytes), groups.size(), *fastest,
                Summarise(medians).median_ms, *slowest, std::accumulate(rates.begin(), rates.end(), 0.0),
                JainText(rates).c_str(), wrong.c_str());
  return text + LateRow(all.inputs_late, all.inputs);
}

int RunGroups(const Options& options, const Run& run) {
  const std::vector<Group> groups = Start(options, run);
  int status = WaitForAll(groups);
  if (groups.size() < options.groups) {
    std::fprintf(stderr, "ringway-bench: a process for each group cannot be started; raise ulimit -u and ulimit -n\n");
    status = 2;
  }
  if (status >= 2) return 2;  // a process has said why, or WaitForAll
  std::vector<Json> results;
  for (const Group& group : groups) results.push_back(Json::parse(group.Text()));
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
