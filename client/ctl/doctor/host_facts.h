// Facts of this host's kernel, limits, memory and disks. Reads small files of the kernel and leaves out those that
// cannot be read or make no sense. Blocks, on the disk at most for the timeout.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/ctl/doctor/facts.h"

namespace ringway::ctl {

// Where the files of the kernel and of systemd are.
struct KernelFiles {
  std::string proc = "/proc";
  std::string cgroup = "/sys/fs/cgroup";
  std::string root = "";
};

// The lines "NAME = VALUE" of a sysctl.d file.
std::vector<SysctlFacts> WantedSysctls(const std::string& conf);

// `pid`: the daemon that runs here; 0: none. `conf`: the sysctl.d file.
HostFacts HostFactsOf(const KernelFiles& files, std::int64_t pid, const std::string& conf);

struct User {
  std::string name;  // "uid 998"
  uid_t uid = 0;
  std::vector<gid_t> groups;
};

// The user of the running daemon, its own group last; nullopt if it does not run, or hides it.
std::optional<User> UserOf(const KernelFiles& files, std::int64_t pid);
// Whether the file's mode lets the user read it; nullopt if the file cannot be looked at.
std::optional<bool> MayRead(const User& user, const std::string& path);

// The directories where ringway-master keeps a journal by default, run by this user or by systemd.
std::vector<std::string> StateDirectories();
// The first journal in them; of a directory that this user may not list, the directory with a "/". Empty: none.
std::string FindJournal(const std::vector<std::string>& directories);

// Writes a small file beside `journal` and waits until it is on the disk. Leaves nothing behind.
JournalFacts ProbeJournal(const std::string& journal, std::chrono::milliseconds timeout);

}  // namespace ringway::ctl
