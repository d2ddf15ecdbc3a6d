#include "client/ctl/doctor/program_check.h"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <system_error>

namespace ringway::ctl {
namespace {

// As one word of a shell's command.
std::string Quoted(const std::string& word) {
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

}  // namespace

std::string OwnDirectory() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).parent_path().string();
}

std::optional<Status> CheckConfigBy(const std::string& directory, const std::string& program, const std::string& file,
                                    std::chrono::milliseconds timeout) {
  // Exit statuses of timeout(1): its own, and that of a program that it had to kill.
  constexpr int kTimedOut = 124;
  constexpr int kKilled = 128 + SIGKILL;
  // 125: timeout(1) fails; 126: the program cannot be run; 127: it, or timeout(1) itself, is not there.
  constexpr int kNotRunFirst = 125;
  constexpr int kNotRunLast = 127;
  const std::string path = directory + "/" + program;
  if (::access(path.c_str(), X_OK) != 0) return std::nullopt;
  const std::string command = "timeout -k 1 " + std::to_string(std::chrono::duration<double>(timeout).count()) + " " +
                              Quoted(path) + " --config " + Quoted(file) + " --check-config 2>&1 </dev/null";
  std::FILE* const output = ::popen(command.c_str(), "re");
  if (output == nullptr) return std::nullopt;
  std::array<char, 4096> bytes{};
  std::string said(bytes.data(), std::fread(bytes.data(), 1, bytes.size(), output));
  while (std::fread(bytes.data(), 1, bytes.size(), output) > 0) {  // a program that cannot write would end otherwise
  }
  const int status = ::pclose(output);
  if (status == 0) return Status::Ok();
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);  // as a shell says it
  if (code >= kNotRunFirst && code <= kNotRunLast) return std::nullopt;
  if (code == kTimedOut || code == kKilled) {
    return Status(Code::kTimeout, program + " does not say in time whether " + file + " is in order");
  }
  return Status(Code::kInvalidArgument, said.substr(0, said.find('\n')));
}

}  // namespace ringway::ctl
