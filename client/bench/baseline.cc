#include "client/bench/baseline.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

namespace ringway::bench {
namespace {

constexpr int kTimedOut = 124;  // exit status of timeout(1)

// A temporary directory, removed with its contents.
class Directory {
 public:
  Directory() : path_((std::filesystem::temp_directory_path() / "ringway-bench-XXXXXX").string()) {
    if (mkdtemp(path_.data()) == nullptr) path_.clear();
  }
  ~Directory() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;
  const std::string& path() const { return path_; }  // "": it could not be created

 private:
  std::string path_;
};

void ReplaceAll(std::string* text, const std::string& name, const std::string& value) {
  for (std::size_t at = text->find(name); at != std::string::npos; at = text->find(name, at + value.size())) {
    text->replace(at, name.size(), value);
  }
}

// Returns its wait status, or -1 with errno. Its children die with this process (setpriv), even by Ctrl-C, which does
// not reach the process group of timeout(1).
int RunShell(std::string command, std::chrono::seconds timeout) {
  std::string seconds = std::to_string(timeout.count());
  std::array<std::string, 8> words = {"setpriv",        "--pdeathsig",      "TERM", "timeout",
                                      "--kill-after=5", std::move(seconds), "sh",   "-c"};
  std::array<char*, 10> arguments{};
  for (std::size_t i = 0; i < words.size(); ++i) arguments[i] = words[i].data();
  arguments[words.size()] = command.data();
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  pid_t child = 0;
  const int error = posix_spawnp(&child, words[0].c_str(), &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    errno = error;
    return -1;
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return -1;
  }
  return status;
}

BaselineResult Parse(const std::string& name, std::istream& file) {
  const nlohmann::json measured = nlohmann::json::parse(file).at("results").at(0);
  return {.name = name,
          .algorithm = measured.value("algorithm", ""),
          .iterations = measured.value("iterations", 0U),
          .time_ms_min = measured.value("time_ms_min", 0.0),
          .time_ms_median = measured.at("time_ms_median").get<double>(),
          .trainer_cpu_seconds = measured.value("trainer_cpu_seconds", 0.0)};
}

}  // namespace

std::optional<Baseline> ParseBaseline(const std::string& text) {
  const std::size_t at = text.find('=');
  if (at == std::string::npos || at == 0 || at + 1 == text.size()) return std::nullopt;
  return Baseline{.name = text.substr(0, at), .command = text.substr(at + 1)};
}

std::string CommandOf(const Baseline& baseline, const BaselineRun& run, const std::string& json_path) {
  std::string command = baseline.command;
  ReplaceAll(&command, "{rank}", std::to_string(run.rank));
  ReplaceAll(&command, "{world}", std::to_string(run.world));
  ReplaceAll(&command, "{bytes}", std::to_string(run.bytes));
  ReplaceAll(&command, "{iters}", std::to_string(run.iterations));
  ReplaceAll(&command, "{warmup}", std::to_string(run.warmup));
  ReplaceAll(&command, "{json}", json_path);
  return command;
}

Result<std::optional<BaselineResult>> RunBaseline(const Baseline& baseline, const BaselineRun& run,
                                                  std::chrono::seconds timeout) {
  const auto failure = [&](const std::string& what) { return Status(Code::kIo, baseline.name + " " + what); };
  const Directory directory;
  if (directory.path().empty()) return failure(std::string("has no result directory: ") + std::strerror(errno));
  const std::string json_path = directory.path() + "/results.json";
  const int status = RunShell(CommandOf(baseline, run, json_path), timeout);
  if (status < 0) return failure(std::string("could not be started (by setpriv and timeout): ") + std::strerror(errno));
  if (WIFEXITED(status) && WEXITSTATUS(status) == kTimedOut) {
    return failure("took over " + std::to_string(timeout.count()) + " s; raise --timeout");
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    return failure("failed with status " + std::to_string(WIFEXITED(status) ? WEXITSTATUS(status) : -status) +
                   "; its output is above");
  }
  std::ifstream file(json_path);
  if (!file) return std::optional<BaselineResult>();
  try {
    return std::optional(Parse(baseline.name, file));
  } catch (const nlohmann::json::exception& error) {
    return failure(std::string("wrote no results to {json}: ") + error.what() + "; see client/bench/baseline.h");
  }
}

}  // namespace ringway::bench
