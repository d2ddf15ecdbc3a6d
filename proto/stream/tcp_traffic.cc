#include "proto/stream/tcp_traffic.h"

// netinet/tcp.h will not do: the C library's tcp_info ends before the byte counts.
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <limits>

namespace ringway::net {
namespace {

constexpr double kFreshWindowSegments = 10;
constexpr int kRecovery = 3;  // TCP_CA_Recovery of netinet/tcp.h; the one beyond is after a timeout

// The kernel's word for no limit times a round trip is more than a counter holds.
std::uint64_t WholeBytes(double bytes) { return static_cast<std::uint64_t>(std::min(bytes, 0x1p62)); }

Duration Above(std::uint64_t part, std::uint64_t whole) { return Duration(whole - std::min(part, whole)); }

}  // namespace

LaneTraffic TrafficOf(int fd) {
  tcp_info info{};
  socklen_t bytes = sizeof info;
  if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0) return {};
  const bool has_round_trip = info.tcpi_min_rtt != std::numeric_limits<decltype(info.tcpi_min_rtt)>::max();
  const double round_trip_s = has_round_trip ? info.tcpi_rtt / 1e6 : 0;
  const double limit = static_cast<double>(info.tcpi_max_pacing_rate) * round_trip_s;
  const bool sending = info.tcpi_unacked > 0 || info.tcpi_notsent_bytes > 0;
  return {.delivered_bytes = info.tcpi_bytes_acked + std::uint64_t{info.tcpi_sacked} * info.tcpi_snd_mss,
          .receiver_limited = Duration(static_cast<std::int64_t>(info.tcpi_rwnd_limited)),
          .resent_bytes = info.tcpi_bytes_retrans,
          .retransmits = info.tcpi_total_retrans,
          .round_trip = has_round_trip ? Duration(info.tcpi_min_rtt) : Duration(),
          .queueing = has_round_trip ? Above(info.tcpi_min_rtt, info.tcpi_rtt) : Duration(),
          .variation = has_round_trip ? Duration(info.tcpi_rttvar) : Duration(),
          .rate = info.tcpi_ca_state < kRecovery ? static_cast<double>(info.tcpi_pacing_rate) : 0,
          .window_bytes = WholeBytes(static_cast<double>(info.tcpi_pacing_rate) * round_trip_s),
          .fresh_window_bytes = WholeBytes(std::min(limit, kFreshWindowSegments * info.tcpi_snd_mss)),
          .unsent = info.tcpi_notsent_bytes > 0,
          .sending = sending,
          .in_use = sending || std::uint64_t{info.tcpi_last_data_recv} * 1000 < info.tcpi_rtt};
}

}  // namespace ringway::net
