#include "proto/stream/socket_options.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "proto/lane_roles.h"
#include "proto/stream/address.h"
#include "proto/stream/tcp_traffic.h"
#include "proto/stream/unique_fd.h"

namespace ringway::net {
namespace {

constexpr int kIdleSeconds = 30;
constexpr char kBbr[] = "bbr";
constexpr char kPlain[] = "reno";                          // every kernel has it, for everybody
constexpr std::uint32_t kNotSentBytesWanted = 512 * 1024;  // enough to keep a fast path busy between two wake-ups

void Set(int fd, int level, int name, int value) { (void)::setsockopt(fd, level, name, &value, sizeof value); }

int SetCongestion(int fd, const std::string& name) {
  return ::setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name.data(), static_cast<socklen_t>(name.size()));
}

}  // namespace

std::uint32_t NotSentBytes(std::uint32_t lanes) {
  return std::min(kNotSentBytesWanted, kNotSentBytesMax / std::max(lanes, 1U));
}

void TuneLink(int fd, const LinkTuning& tuning) {
  Set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  Set(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, static_cast<int>(NotSentBytes(tuning.lanes)));
  Set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(tuning.detect_ms));
  // Silence of the other end is found by the control link's heartbeats. These probes only find a lane that a middlebox
  // has forgotten, before an operation does, and keep it from forgetting: each costs traffic day and night.
  Set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  if (tuning.dscp != 0 && !tuning.loopback) {
    constexpr int kShift = 2;  // the lower bits of the octet are ECN's
    Set(fd, IPPROTO_IP, IP_TOS, static_cast<int>(tuning.dscp) << kShift);
    Set(fd, IPPROTO_IPV6, IPV6_TCLASS, static_cast<int>(tuning.dscp) << kShift);
  }
  Set(fd, IPPROTO_TCP, TCP_KEEPIDLE, kIdleSeconds);
  Set(fd, IPPROTO_TCP, TCP_KEEPINTVL, std::max(1, static_cast<int>(tuning.detect_ms / 3000)));
  Set(fd, IPPROTO_TCP, TCP_KEEPCNT, 3);
}

std::string CongestionFor(const LinkTuning& tuning, Duration round_trip) {
  if (tuning.loopback) return "cubic";
  if (!tuning.congestion.empty()) return tuning.congestion;
  return round_trip > Duration() && round_trip < kNearby ? "cubic" : kBbr;
}

void ChooseCongestion(int fd, const LinkTuning& tuning) {
  (void)SetCongestion(fd, CongestionFor(tuning, RoundTripOf(fd)));
}

void RenewCongestion(int fd) {
  // The system's default may be kept without the right to choose it.
  static const bool may_choose = [] {
    const UniqueFd probe(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    return probe.valid() && SetCongestion(probe.get(), kPlain) == 0 && SetCongestion(probe.get(), kBbr) == 0;
  }();
  std::array<char, 16> name{};  // TCP_CA_NAME_MAX
  socklen_t bytes = name.size();
  if (!may_choose || ::getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name.data(), &bytes) != 0) return;
  const bool is_bbr = std::string(name.data(), ::strnlen(name.data(), bytes)) == kBbr;
  if (is_bbr && SetCongestion(fd, kPlain) == 0) (void)SetCongestion(fd, kBbr);
}

void LimitRate(int fd, double bytes_per_second) {
  const std::uint64_t rate = bytes_per_second > 0 ? static_cast<std::uint64_t>(bytes_per_second) : ~std::uint64_t{0};
  (void)::setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &rate, sizeof rate);
}

Duration RoundTripOf(int fd) { return TrafficOf(fd).round_trip; }

Status CheckCongestion(const std::string& name) {
  const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return ErrnoStatus("cannot open a socket", errno);
  if (SetCongestion(fd.get(), name) == 0) return Status::Ok();
  return {Code::kInvalidArgument, "congestion control '" + name +
                                      "' is not available; see /proc/sys/net/ipv4/tcp_available_congestion_control"};
}

}  // namespace ringway::net
