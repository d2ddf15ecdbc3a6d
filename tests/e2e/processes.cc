#include "tests/e2e/processes.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

namespace ringway::e2e {
namespace {

constexpr std::chrono::milliseconds kPoll(3);

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// Splits a line of the log into words; a value in quotation marks belongs to one word.
std::vector<std::string> WordsOf(const std::string& line) {
  std::vector<std::string> words(1);
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '"') quoted = !quoted;
    if (line[i] == ' ' && !quoted) {
      if (!words.back().empty()) words.emplace_back();
      continue;
    }
    words.back() += line[i];
    if (line[i] == '\\' && quoted && i + 1 < line.size()) words.back() += line[++i];
  }
  return words;
}

// Between fork and exec: only what is safe there.
[[noreturn]] void Become(char* const* argv, int out, int err, pid_t parent) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(126);  // it died before the line above
  const int null = ::open("/dev/null", O_RDONLY);
  ::dup2(null, STDIN_FILENO);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(err, STDERR_FILENO);
  ::close_range(STDERR_FILENO + 1, ~0U, 0);  // a relay's sockets among them, which would not close with the relay
  ::execv(argv[0], argv);
  ::_exit(127);
}

}  // namespace

bool Eventually(const std::function<bool()>& condition, std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(kPoll);
  }
  return true;
}

TemporaryDirectory::TemporaryDirectory() {
  std::string pattern = (std::filesystem::temp_directory_path() / "ringway_e2e_XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) {
    std::perror(pattern.c_str());
    std::abort();
  }
  path_ = pattern;
}

TemporaryDirectory::~TemporaryDirectory() {
  if (kept_) return;
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

Process::Process(const TemporaryDirectory& directory, const std::string& label, const std::vector<std::string>& argv)
    : label_(label), out_path_(directory / (label + ".out")), err_path_(directory / (label + ".err")) {
  std::vector<std::string> copy = argv;
  std::vector<char*> pointers;
  pointers.reserve(copy.size() + 1);
  for (std::string& argument : copy) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  const int out = ::open(out_path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  const int err = ::open(err_path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ == 0) Become(pointers.data(), out, err, parent);
  ::close(out);
  ::close(err);
  if (pid_ < 0) {
    ADD_FAILURE() << "fork of " << label << " failed";
    exit_ = -1;
    return;
  }
  ::setpgid(pid_, pid_);  // whoever comes first, it or we: the group is there from here on
}

Process::~Process() {
  Kill();
  const std::string err = Err();
  for (const char* trouble : {"Sanitizer", "runtime error:", "invariant broken"}) {
    EXPECT_EQ(err.find(trouble), std::string::npos) << label_ << ": " << err.substr(err.find(trouble), 4000);
  }
  if (!testing::Test::HasFailure()) return;
  constexpr std::size_t kShown = 4000;
  const std::string end = err.size() > kShown ? "..." + err.substr(err.size() - kShown) : err;
  std::printf("---- stderr of %s (exit %d)\n%s\n", label_.c_str(), exit_.value_or(-1), end.c_str());
}

void Process::Signal(int signal) const {
  if (!exit_.has_value()) ::kill(-pid_, signal);
}

void Process::Freeze() {
  Signal(SIGSTOP);
  EXPECT_TRUE(Eventually([this] {
    siginfo_t stopped{};
    return Exited().has_value() ||
           (::waitid(P_PID, static_cast<id_t>(pid_), &stopped, WSTOPPED | WNOHANG) == 0 && stopped.si_pid == pid_);
  })) << label_
      << " does not stop";
}

void Process::Kill() {
  Signal(SIGKILL);
  (void)Wait();
}

std::optional<int> Process::Exited() {
  if (exit_.has_value()) return exit_;
  int status = 0;
  if (::waitpid(pid_, &status, WNOHANG) == pid_) exit_ = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  return exit_;
}

std::optional<int> Process::Wait() {
  (void)Eventually([this] { return Exited().has_value(); });
  return exit_;
}

std::string Process::Out() const { return ReadFile(out_path_); }
std::string Process::Err() const { return ReadFile(err_path_); }

std::string Process::Logged(const std::string& event, const std::string& key) const {
  std::istringstream lines(Err());
  for (std::string line; std::getline(lines, line);) {
    const std::vector<std::string> words = WordsOf(line);
    if (words.size() < 3 || words[2] != event) continue;
    for (const std::string& word : words) {
      if (!word.starts_with(key + "=")) continue;
      std::string value = word.substr(key.size() + 1);
      if (!value.starts_with('"')) return value;
      const auto text = nlohmann::json::parse(value, nullptr, false);  // the line may not be whole yet
      return text.is_string() ? text.get<std::string>() : std::string();
    }
  }
  return {};
}

std::size_t Process::OpenDescriptors() const {
  std::error_code ignored;
  const std::filesystem::directory_iterator entries("/proc/" + std::to_string(pid_) + "/fd", ignored);
  return static_cast<std::size_t>(std::distance(begin(entries), end(entries)));
}

std::size_t Process::MappedRegions() const {
  std::istringstream lines(ReadFile("/proc/" + std::to_string(pid_) + "/maps"));
  std::size_t count = 0;
  for (std::string line; std::getline(lines, line);) count += line.find("/memfd:") != std::string::npos ? 1 : 0;
  return count;
}

Finished RunToEnd(const std::vector<std::string>& argv) {
  const TemporaryDirectory directory;
  Process process(directory, "command", argv);
  const int code = process.Wait().value_or(-1000);
  return {code, process.Out(), process.Err()};
}

nlohmann::json DaemonStatusAt(const std::string& socket) {
  const Finished run = RunToEnd({RINGWAY_CTL, "--socket", socket, "status", "--json", "--timeout-ms", "60000"});
  return run.code == 0 ? nlohmann::json::parse(run.out, nullptr, false) : nlohmann::json::object();
}

std::size_t KeptAt(const std::string& socket) {
  return DaemonStatusAt(socket).value(nlohmann::json::json_pointer("/daemon/descriptors/kept"), std::size_t{0});
}

}  // namespace ringway::e2e
