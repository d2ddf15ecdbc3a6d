// What this host's kernel, limits, memory and disks are. Reads small files of the kernel, in whatever state they are:
// what cannot be read or makes no sense is left out. Blocks, the disk at most for the timeout.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/ctl/doctor/facts.h"

namespace ringway::ctl {

// Where the kernel's files are.
struct KernelFiles {
  std::string proc = "/proc";
  std::string cgroup = "/sys/fs/cgroup";
};

// "NAME = VALUE" of each line of a sysctl.d file, of which comments are left out.
std::vector<SysctlFacts> WantedSysctls(const std::string& conf);

// `pid`: of the daemon that runs here; 0: none. `conf`: the sysctl.d file.
HostFacts HostFactsOf(const KernelFiles& files, std::int64_t pid, const std::string& conf);

struct User {
  std::string name;  // "uid 998"
  uid_t uid = 0;
  std::vector<gid_t> groups;
};

// As whom the daemon runs; nothing if it does not, or hides it.
std::optional<User> UserOf(const KernelFiles& files, std::int64_t pid);
// Whether the file's mode lets the user read it; nothing if the file cannot be looked at.
std::optional<bool> MayRead(const User& user, const std::string& path);

// Writes a small file beside `journal` and waits until it is on the disk. Leaves nothing behind.
JournalFacts ProbeJournal(const std::string& journal, std::chrono::milliseconds timeout);

}  // namespace ringway::ctl
