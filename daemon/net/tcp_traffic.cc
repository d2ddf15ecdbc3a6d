#include "daemon/net/tcp_traffic.h"

// Not netinet/tcp.h: the C library's tcp_info ends before the byte counts.
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <limits>

namespace ringway::net {

TcpTraffic TrafficOf(int fd) {
  tcp_info info{};
  socklen_t bytes = sizeof info;
  if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0) return {};
  const bool has_round_trip = info.tcpi_min_rtt != std::numeric_limits<decltype(info.tcpi_min_rtt)>::max();
  return {
      .delivered_bytes = info.tcpi_bytes_acked + std::uint64_t{info.tcpi_sacked} * info.tcpi_snd_mss,
      .receiver_limited = Duration(static_cast<std::int64_t>(info.tcpi_rwnd_limited)),
      .resent_bytes = info.tcpi_bytes_retrans,
      .retransmits = info.tcpi_total_retrans,
      .round_trip = has_round_trip ? Duration(info.tcpi_min_rtt) : Duration(),
      .queueing = has_round_trip ? Duration(info.tcpi_rtt - std::min(info.tcpi_rtt, info.tcpi_min_rtt)) : Duration()};
}

}  // namespace ringway::net
