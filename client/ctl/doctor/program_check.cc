#include "client/ctl/doctor/program_check.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <system_error>

#include "proto/clock.h"
#include "proto/stream/unique_fd.h"

namespace ringway::ctl {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kWordsBytesMax = 4096;

struct FileActions {
  FileActions() { ::posix_spawn_file_actions_init(&actions); }
  ~FileActions() { ::posix_spawn_file_actions_destroy(&actions); }
  FileActions(const FileActions&) = delete;
  FileActions& operator=(const FileActions&) = delete;
  posix_spawn_file_actions_t actions{};
};

// -1 if it cannot be started. Both of its outputs go to `out`.
pid_t Spawn(std::array<std::string, 4> words, int out) {
  std::array<char*, 5> argv{};
  for (std::size_t i = 0; i < words.size(); ++i) argv[i] = words[i].data();
  FileActions files;
  ::posix_spawn_file_actions_addopen(&files.actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&files.actions, out, STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&files.actions, out, STDERR_FILENO);
  pid_t pid = -1;
  return ::posix_spawn(&pid, argv[0], &files.actions, nullptr, argv.data(), environ) == 0 ? pid : -1;
}

// What comes until the other end is closed, the first bytes of it; nothing if that takes longer.
std::optional<std::string> ReadAll(int fd, milliseconds timeout) {
  const TimePoint end = MonotonicNow() + timeout;
  std::string words;
  std::array<char, 1024> bytes;
  for (;;) {
    const auto left = std::chrono::ceil<milliseconds>(end - MonotonicNow());
    pollfd polled = {.fd = fd, .events = POLLIN, .revents = 0};
    if (left <= milliseconds(0) || ::poll(&polled, 1, static_cast<int>(left.count())) == 0) return std::nullopt;
    const ssize_t n = ::read(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return words;
    if (words.size() < kWordsBytesMax) words.append(bytes.data(), static_cast<std::size_t>(n));
  }
}

}  // namespace

std::string OwnDirectory() {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? "" : self.parent_path().string();
}

std::optional<Status> CheckConfigBy(const std::string& directory, const std::string& program, const std::string& file,
                                    milliseconds timeout) {
  const std::string path = directory + "/" + program;
  std::array<int, 2> ends{};
  if (::access(path.c_str(), X_OK) != 0 || ::pipe2(ends.data(), O_CLOEXEC) != 0) return std::nullopt;
  const net::UniqueFd reading(ends[0]);
  net::UniqueFd writing(ends[1]);
  const pid_t pid = Spawn({path, "--config", file, "--check-config"}, writing.get());
  writing.Reset();
  if (pid < 0) return std::nullopt;
  const std::optional<std::string> words = ReadAll(reading.get(), timeout);
  if (!words) ::kill(pid, SIGKILL);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (!words) return Status(Code::kTimeout, program + " does not say in time whether " + file + " is in order");
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return Status::Ok();
  return Status(Code::kInvalidArgument, words->substr(0, words->find('\n')));
}

}  // namespace ringway::ctl
