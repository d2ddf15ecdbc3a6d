#include "daemon/net/kernel_advice.h"

#include <cstdint>
#include <fstream>
#include <optional>

namespace ringway::net {
namespace {

constexpr const char* kRemedy =
    "; run sysctl --system where lib/sysctl.d of the installation has 60-ringway.conf under /usr/local or /usr, else "
    "first "
    "copy it, or deploy/sysctl.d/60-ringway.conf of the sources, to /etc/sysctl.d";
// Bandwidth-delay product of one connection: 1.3 Gbit/s and 100 ms.
constexpr std::uint64_t kWindowBytes = 16 << 20;

// Returns the last number of the file, of three the maximum; nullopt if there is none.
std::optional<std::uint64_t> LastNumber(const std::string& path) {
  std::ifstream file(path);
  std::optional<std::uint64_t> last;
  for (std::uint64_t number = 0; file >> number;) last = number;
  return last;
}

}  // namespace

std::vector<std::string> KernelAdvice(bool lacks_bbr, const std::string& proc_sys) {
  std::vector<std::string> advice;
  const std::string tcp = proc_sys + "/net/ipv4/tcp_";
  if (LastNumber(tcp + "slow_start_after_idle").value_or(0) != 0) {
    advice.push_back(
        std::string("net.ipv4.tcp_slow_start_after_idle is 1: connections forget their speed in every pause "
                    "between operations") +
        kRemedy);
  }
  std::string small;
  for (const char* const name : {"rmem", "wmem"}) {
    const std::optional<std::uint64_t> bytes = LastNumber(tcp + name);
    if (!bytes || *bytes >= kWindowBytes) continue;
    small += (small.empty() ? "" : ", ") + ("net.ipv4.tcp_" + std::string(name)) + " allows " + std::to_string(*bytes);
  }
  if (!small.empty()) {
    advice.push_back(small + ": a connection over a fast long path has " + std::to_string(kWindowBytes) +
                     " bytes on the way" + kRemedy);
  }
  if (lacks_bbr) {
    advice.emplace_back(
        "this kernel refuses congestion control bbr: long paths that lose packets are slow without it; load the module "
        "tcp_bbr (echo tcp_bbr > /etc/modules-load.d/ringway.conf; modprobe tcp_bbr), or, if it is loaded, "
        "add bbr to net.ipv4.tcp_allowed_congestion_control");
  }
  return advice;
}

}  // namespace ringway::net
