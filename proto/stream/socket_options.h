// Socket options of the daemon's TCP connections. SO_SNDBUF and SO_RCVBUF stay unset: setting them disables autotuning.
#pragma once

#include <cstdint>
#include <string>

#include "proto/clock.h"
#include "proto/result.h"

namespace ringway::net {

// Bytes that the lanes of one pair may hold unsent in the kernel, together: what an urgent frame has to overtake.
inline constexpr std::uint32_t kNotSentBytesMax = 4 << 20;

struct LinkTuning {
  std::uint32_t detect_ms = 3000;  // silence after which the kernel closes a connection
  std::uint32_t lanes = 1;         // connections that share kNotSentBytesMax
  bool loopback = false;
  std::uint32_t dscp = 0;  // class of the packets of links that leave this host, 0 to 63
  std::string congestion;  // control of links that leave this host; "": by the round trip
};

// Best effort: an option that this kernel lacks is skipped, the connection works without it.
void TuneLink(int fd, const LinkTuning& tuning);

// Returns the congestion control for a round trip (0: not known): cubic within a host or a site, where bbr's pacing
// costs time; else bbr, which losses do not slow down. Measured: tests/bench/RESULTS.md.
std::string CongestionFor(const LinkTuning& tuning, Duration round_trip);

// Sets the congestion control of an open connection; one that this kernel lacks is skipped.
void ChooseCongestion(int fd, const LinkTuning& tuning);

// Resets bbr on a connection, except its round trip and its window: it probes for its rate as on a fresh one. No-op for
// other congestion controls, and where this process may not choose bbr.
void RenewCongestion(int fd);

// Returns the kernel's smoothed round trip; on a fresh connection the handshake's. 0 if it has seen none.
Duration RoundTripOf(int fd);

// Sets the pacing rate; 0: no limit.
void LimitRate(int fd, double bytes_per_second);

// kInvalidArgument if this kernel does not offer congestion control `name`.
Status CheckCongestion(const std::string& name);

// Returns one lane's share of kNotSentBytesMax, at most 512 KiB.
std::uint32_t NotSentBytes(std::uint32_t lanes);

}  // namespace ringway::net
