// Real processes under a test: started in their own process group, their output in files, ended and reaped whatever
// happens.
//
// Threads: one. A process dies with the thread that started it (PR_SET_PDEATHSIG), so that a test which is killed
// leaves nothing behind: start processes on the test's main thread only.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace ringway::e2e {

// Far beyond what anything here takes: only a hang gets there.
inline constexpr std::chrono::seconds kPatience(60);

// Polls until `condition` holds; false if it does not within the patience.
[[nodiscard]] bool Eventually(const std::function<bool()>& condition, std::chrono::milliseconds patience = kPatience);

class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  const std::filesystem::path& path() const { return path_; }
  // It stays when this is gone.
  void Keep() { kept_ = true; }

 private:
  std::filesystem::path path_;
  bool kept_ = false;
};

class Process {
 public:
  // Runs `argv`; stdout and stderr go to `label`.out and `label`.err in `directory`, which outlives the process.
  Process(const TemporaryDirectory& directory, const std::string& label, const std::vector<std::string>& argv);
  // SIGKILL for the whole group, then reaps. If the test has failed, prints the end of what the process wrote.
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }
  const std::string& label() const { return label_; }
  void Signal(int signal) const;
  // SIGSTOP, which takes its time where the machine is busy: returns once all threads have stopped. SIGCONT wakes them.
  void Freeze();
  // SIGKILL and reaped.
  void Kill();
  // The exit code, or minus the signal that ended it; nothing while it runs.
  std::optional<int> Exited();
  // Waits for the end; nothing if it does not come.
  std::optional<int> Wait();

  std::string Out() const;
  std::string Err() const;
  // The value of `key=` on the first line of stderr with this event; "" if there is none yet.
  std::string Logged(const std::string& event, const std::string& key) const;

  // Resources of the process as the kernel counts them, to find leaks.
  std::size_t OpenDescriptors() const;
  std::size_t MappedRegions() const;  // mappings of memfds

 private:
  std::string label_;
  std::string out_path_, err_path_;
  pid_t pid_ = -1;
  std::optional<int> exit_;
};

// Runs a command to its end.
struct Finished {
  int code = -1;  // as Process::Exited; -1000 if it did not end
  std::string out, err;
};
Finished RunToEnd(const std::vector<std::string>& argv);

// Returns the state of the daemon at `socket` (daemon/runtime/status_json.h); empty without one.
nlohmann::json DaemonStatusAt(const std::string& socket);
// Returns how many connections it keeps for later lanes: a descriptor each.
std::size_t KeptAt(const std::string& socket);

}  // namespace ringway::e2e
