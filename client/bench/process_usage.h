// CPU time and memory of a process, from /proc.
#pragma once

#include <cstdint>
#include <string>

namespace ringway::bench {

// Zeros if the process is gone or not accessible. CPU time has the kernel's resolution of about 10 ms.
struct ProcessUsage {
  double cpu_seconds = 0;
  std::uint64_t peak_rss_bytes = 0;
  std::uint64_t rss_anon_bytes = 0;
  std::uint64_t rss_shmem_bytes = 0;
};

ProcessUsage UsageOf(int pid);

// Returns the pid of the process that listens on this Unix socket (SOCK_SEQPACKET), 0 if there is none.
int PidOfListener(const std::string& socket_path);

}  // namespace ringway::bench
