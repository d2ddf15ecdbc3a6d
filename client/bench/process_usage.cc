#include "client/bench/process_usage.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <sstream>

namespace ringway::bench {
namespace {

double CpuSeconds(const std::string& directory) {
  std::ifstream file(directory + "/stat");
  std::string line;
  std::getline(file, line);
  // The name in parentheses may contain anything, also spaces and parentheses.
  const std::size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) return 0;
  std::istringstream fields(line.substr(name_end + 1));
  constexpr int kFieldsBeforeUserTime = 11;
  std::string skipped;
  for (int i = 0; i < kFieldsBeforeUserTime; ++i) fields >> skipped;
  double user_ticks = 0;
  double system_ticks = 0;
  fields >> user_ticks >> system_ticks;
  return (user_ticks + system_ticks) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

}  // namespace

ProcessUsage UsageOf(int pid) {
  ProcessUsage usage;
  if (pid <= 0) return usage;
  const std::string directory = "/proc/" + std::to_string(pid);
  usage.cpu_seconds = CpuSeconds(directory);
  std::ifstream status(directory + "/status");
  std::string line;
  while (std::getline(status, line)) {
    std::istringstream fields(line);
    std::string name;
    std::uint64_t kilobytes = 0;
    fields >> name >> kilobytes;
    if (name == "VmHWM:") usage.peak_rss_bytes = kilobytes * 1024;
    if (name == "RssAnon:") usage.rss_anon_bytes = kilobytes * 1024;
    if (name == "RssShmem:") usage.rss_shmem_bytes = kilobytes * 1024;
  }
  return usage;
}

int PidOfListener(const std::string& socket_path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (socket_path.size() >= sizeof(address.sun_path)) return 0;
  std::memcpy(address.sun_path, socket_path.data(), socket_path.size());
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (fd < 0) return 0;
  ucred credentials{};
  socklen_t size = sizeof(credentials);
  const bool known = connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 &&
                     getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size) == 0;
  close(fd);
  return known ? credentials.pid : 0;
}

}  // namespace ringway::bench
