#include "client/ctl/doctor/host_facts.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>
#include <sstream>
#include <system_error>
#include <utility>

#include "client/ctl/doctor/within.h"
#include "proto/clock.h"
#include "proto/stream/unique_fd.h"

namespace ringway::ctl {
namespace {

constexpr std::size_t kKernelFileBytesMax = 64 << 10;
constexpr std::size_t kProbeBytes = 4096;
constexpr char kBlanks[] = " \t\n";

bool Exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

// The first bytes of the file; nullopt if it cannot be read.
std::optional<std::string> ReadKernelFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(kKernelFileBytesMax, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad() || !file.is_open()) return std::nullopt;
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

// The words with single blanks between, where kernels put tabs.
std::string Words(const std::string& text) {
  std::istringstream in(text);
  std::string out;
  for (std::string word; in >> word;) out += (out.empty() ? "" : " ") + word;
  return out;
}

std::optional<std::uint64_t> Number(const std::string& text) {
  const std::string word = Words(text);
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (word.empty() || error != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return number;
}

// The words after `key` on the first line that begins with it.
std::optional<std::string> After(const std::string& text, const std::string& key) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(key)) return Words(line.substr(key.size()));
  }
  return std::nullopt;
}

// A line of meminfo: "MemTotal:   16323740 kB".
std::optional<std::uint64_t> MemoryBytes(const std::string& meminfo, const std::string& key) {
  const std::optional<std::string> value = After(meminfo, key);
  if (!value || !value->ends_with(" kB")) return std::nullopt;
  const std::optional<std::uint64_t> kib = Number(value->substr(0, value->size() - 3));
  if (!kib || *kib > std::numeric_limits<std::uint64_t>::max() >> 10) return std::nullopt;
  return *kib << 10;
}

// The soft limit in a file like /proc/PID/limits; nullopt also if it is unlimited.
std::optional<std::uint64_t> LimitIn(const std::string& limits, const std::string& name) {
  const std::optional<std::string> value = After(limits, name);
  return value ? Number(value->substr(0, value->find(' '))) : std::nullopt;
}

// The lowest limit of the cgroup and of those above it.
std::optional<std::uint64_t> CgroupMax(const KernelFiles& files, const std::string& process) {
  const std::optional<std::string> text = ReadKernelFile(process + "/cgroup");
  std::optional<std::string> path = text ? After(*text, "0::/") : std::nullopt;
  if (!path || path->find("..") != std::string::npos) return std::nullopt;
  std::optional<std::uint64_t> lowest;
  for (;;) {
    const std::optional<std::string> max = ReadKernelFile(files.cgroup + "/" + *path + "/memory.max");
    const std::optional<std::uint64_t> bytes = max ? Number(*max) : std::nullopt;
    if (bytes) lowest = std::min(lowest.value_or(*bytes), *bytes);
    if (path->empty()) return lowest;
    path->resize(path->find('/') == std::string::npos ? 0 : path->rfind('/'));
  }
}

// The numbers of a line of /proc/PID/status.
std::vector<std::uint32_t> NumbersAfter(const std::string& status, const std::string& key) {
  std::istringstream words(After(status, key).value_or(""));
  std::vector<std::uint32_t> numbers;
  for (std::uint32_t number = 0; words >> number;) numbers.push_back(number);
  return numbers;
}

bool IsDaemon(const std::string& process) {
  const std::optional<std::string> name = ReadKernelFile(process + "/comm");
  return name && Words(*name) == kDaemonProgram;
}

// The daemon raises its soft limit to the hard one (daemon/runtime/descriptors.h).
std::optional<std::uint64_t> OwnDescriptors() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return std::nullopt;
  return limit.rlim_max;
}

bool IsOtherNetwork(const KernelFiles& files, const std::string& process) {
  std::error_code error;
  const auto ours = std::filesystem::read_symlink(files.proc + "/self/ns/net", error);
  if (error) return false;
  const auto theirs = std::filesystem::read_symlink(process + "/ns/net", error);
  return !error && ours != theirs;
}

Status SystemFailure(const std::string& doing) {
  return {Code::kIo, doing + ": " + std::error_code(errno, std::generic_category()).message()};
}

// A file without a name where the file system has such.
net::UniqueFd OpenProbe(const std::string& directory) {
  net::UniqueFd fd(::open(directory.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600));
  if (fd.valid() || errno != EOPNOTSUPP) return fd;
  std::string name = directory + "/.ringway-doctor-XXXXXX";
  fd.Reset(::mkostemp(name.data(), O_CLOEXEC));
  if (fd.valid()) ::unlink(name.c_str());
  return fd;
}

JournalFacts Probe(const std::string& path) {
  JournalFacts facts;
  facts.path = path;
  const std::string parent = std::filesystem::path(path).parent_path().string();
  const std::string directory = parent.empty() ? "." : parent;
  struct statvfs room {};
  if (::statvfs(directory.c_str(), &room) == 0) facts.free_bytes = std::uint64_t{room.f_bavail} * room.f_frsize;
  struct statfs kind {};
  if (::statfs(directory.c_str(), &kind) == 0)
    facts.in_memory = kind.f_type == TMPFS_MAGIC || kind.f_type == RAMFS_MAGIC;
  const net::UniqueFd fd = OpenProbe(directory);
  if (!fd.valid()) {
    facts.hidden = errno == EACCES;
    facts.probe = SystemFailure("cannot write to " + directory);
    return facts;
  }
  const std::array<char, kProbeBytes> bytes{};
  const TimePoint begin = MonotonicNow();
  errno = ENOSPC;  // of a write that is cut short
  if (::write(fd.get(), bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size()) || ::fsync(fd.get()) != 0) {
    facts.probe = SystemFailure("cannot write to " + directory);
  }
  facts.sync_us = (MonotonicNow() - begin).count();
  return facts;
}

}  // namespace

std::vector<SysctlFacts> WantedSysctls(const std::string& conf) {
  std::vector<SysctlFacts> wanted;
  std::istringstream lines(conf);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t begin = line.find_first_not_of(kBlanks);
    const std::size_t equals = line.find('=');
    if (begin == std::string::npos || line[begin] == '#' || line[begin] == ';' || equals == std::string::npos) continue;
    wanted.push_back({.name = Words(line.substr(0, equals)), .wanted = Words(line.substr(equals + 1)), .value = {}});
  }
  return wanted;
}

HostFacts HostFactsOf(const KernelFiles& files, std::int64_t pid, const std::string& conf) {
  HostFacts facts;
  facts.root = ::geteuid() == 0;
  facts.systemd = Exists(files.root + "/run/systemd/system");
  for (const std::string program : {kDaemonProgram, kMasterProgram}) {
    for (const char* directory : {"/etc", "/usr/lib", "/lib"}) {
      const bool unit = facts.systemd && Exists(files.root + directory + "/systemd/system/" + program + ".service");
      if (unit) facts.units.push_back(program);
    }
  }
  const std::string daemon = files.proc + "/" + std::to_string(pid);
  const bool runs = pid > 0 && IsDaemon(daemon);
  const std::string process = runs ? daemon : files.proc + "/self";
  facts.other_network = runs && IsOtherNetwork(files, daemon);
  facts.sysctls = WantedSysctls(conf);
  for (SysctlFacts& one : facts.sysctls) {
    std::string path = one.name;
    std::replace(path.begin(), path.end(), '.', '/');
    if (const auto value = ReadKernelFile(files.proc + "/sys/" + path)) one.value = Words(*value);
  }
  const std::string tcp = files.proc + "/sys/net/ipv4/tcp_";
  facts.congestion.available = Words(ReadKernelFile(tcp + "available_congestion_control").value_or(""));
  facts.congestion.allowed = Words(ReadKernelFile(tcp + "allowed_congestion_control").value_or(""));
  const std::optional<std::string> limits = ReadKernelFile(process + "/limits");
  if (limits) facts.address_space = LimitIn(*limits, "Max address space");
  if (runs && limits) facts.descriptors = LimitIn(*limits, "Max open files");
  facts.of_daemon = facts.descriptors.has_value();
  if (!facts.of_daemon) facts.descriptors = OwnDescriptors();
  const std::string meminfo = ReadKernelFile(files.proc + "/meminfo").value_or("");
  facts.memory_bytes = MemoryBytes(meminfo, "MemTotal:");
  facts.memory_available = MemoryBytes(meminfo, "MemAvailable:");
  if (runs) facts.cgroup_max = CgroupMax(files, process);
  return facts;
}

std::optional<User> UserOf(const KernelFiles& files, std::int64_t pid) {
  const std::string process = files.proc + "/" + std::to_string(pid);
  if (pid <= 0 || !IsDaemon(process)) return std::nullopt;
  const std::string status = ReadKernelFile(process + "/status").value_or("");
  const std::vector<std::uint32_t> uids = NumbersAfter(status, "Uid:");  // real, effective, saved, of files
  const std::vector<std::uint32_t> gids = NumbersAfter(status, "Gid:");
  if (uids.size() != 4 || gids.size() != 4) return std::nullopt;
  User user = {.name = "uid " + std::to_string(uids[3]), .uid = uids[3], .groups = NumbersAfter(status, "Groups:")};
  user.groups.push_back(gids[3]);
  return user;
}

std::optional<bool> MayRead(const User& user, const std::string& path) {
  struct stat facts {};
  if (::stat(path.c_str(), &facts) != 0) return std::nullopt;
  if (user.uid == 0) return true;
  if (user.uid == facts.st_uid) return (facts.st_mode & S_IRUSR) != 0;
  const bool in_group = std::find(user.groups.begin(), user.groups.end(), facts.st_gid) != user.groups.end();
  return (facts.st_mode & (in_group ? S_IRGRP : S_IROTH)) != 0;
}

std::vector<std::string> StateDirectories() {
  std::vector<std::string> directories;
  const auto add = [&](const char* variable, const char* below) {
    const char* value = std::getenv(variable);  // NOLINT(concurrency-mt-unsafe): nobody sets it
    if (value != nullptr && *value != '\0') directories.push_back(std::string(value) + below);
  };
  add("XDG_STATE_HOME", "/ringway");
  add("HOME", "/.local/state/ringway");
  directories.emplace_back("/var/lib/ringway");  // StateDirectory= of its unit
  return directories;
}

std::string FindJournal(const std::vector<std::string>& directories) {
  for (const std::string& directory : directories) {
    std::error_code error;
    std::set<std::string> journals;
    for (std::filesystem::directory_iterator at(directory, error), end; !error && at != end; at.increment(error)) {
      const std::string name = at->path().filename().string();
      if (name.starts_with("master-") && name.ends_with(".db")) journals.insert(at->path().string());
    }
    if (error == std::errc::permission_denied) return directory + "/";
    if (!journals.empty()) return *journals.begin();
  }
  return "";
}

JournalFacts ProbeJournal(const std::string& journal, std::chrono::milliseconds timeout) {
  std::optional<JournalFacts> facts = Within<JournalFacts>(timeout, [journal] { return Probe(journal); });
  if (facts) return *facts;
  JournalFacts late;
  late.path = journal;
  late.probe = {Code::kTimeout, "a write does not come back in time: the disk, or the server that it is on, hangs"};
  return late;
}

}  // namespace ringway::ctl
