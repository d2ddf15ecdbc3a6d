// Describes an emulated WAN: hosts at sites, each with an uplink and a downlink, and a path for every ordered
// pair of hosts.
//
// A scenario is a TOML file:
//
//   seed = 1                          # of losses, jitter and corruption
//   [default]                         # of all paths between sites; the same keys as in [[path]]
//   delay_ms = 50                     # one way
//   [inside]                          # of all paths between hosts of one site
//   delay_ms = 0.1
//   [[site]]
//   name = "us-east"
//   hosts = 2                         # 1 by default
//   uplink_mbit = 400                 # of each host; 0: no limit
//   downlink_mbit = 400               # of each host, likewise
//   shared_mbit = 1000                # of all hosts of the site together, to other sites; 0: no limit
//   queue_ms = 50                     # drop-tail, of each of the three: how long its bytes take at its present rate
//   drops = "packets"                 # how these queues and those of the host's paths drop (enum Drops)
//   police_mbit = 200                 # a token bucket behind each uplink, which drops the excess at once; 0: none
//   police_burst_kb = 256             # its depth, in 1000 bytes
//   inbound = false                   # connections to its hosts are not let in, as behind NAT; true by default
//   schedule = "10:40 30:400"         # uplink_mbit is 40 from second 10 on, and 400 from second 30 on
//   congestion = "cubic"              # the hosts' congestion control; without it the kernel's default (tests/wan/run)
//   [[path]]                          # a later one wins, key by key
//   between = ["us-east", "us-west"]  # both ways; or from = "...", to = "..." for one way; "*" is every other site
//   delay_ms = 30
//   jitter_ms = 8                     # up to this much more delay, uniform: drawn anew every jitter_ms
//   reorder = false                   # true: drawn for each packet, and packets overtake each other
//   mbit = 100                        # 0: no limit but the uplink's
//   queue_ms = 50
//   loss = 0.001                      # of each MTU-sized packet, 0 .. 1
//   corrupt = 1e-6                    # a byte of the payload is changed, and TCP's checksum made right
//   black_hole = false
//   [[foreign]]                       # plain TCP connections that send all the time (tests/wan/flows.py)
//   from = "us-east"                  # from the first host of this site
//   to = "us-west"                    # to the first of this one
//   connections = 1
//   congestion = "cubic"              # as of a site's hosts
//
// A key that is not listed here is an error, so that no typing mistake measures another network.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ringway::wan {

using Nanoseconds = std::chrono::nanoseconds;

// A queue that drains at a fixed rate and drops what does not fit.
struct Pipe {
  double bytes_per_second = 0;  // 0: no limit
  double queue_seconds = 0.05;
  friend bool operator==(const Pipe&, const Pipe&) = default;
};

// How a queue without room drops. A policer, and loss on a path, take packets one by one whichever it is.
enum class Drops : std::uint8_t {
  kPackets,       // "packets": one by one, as switches of hardware do
  kSuperPackets,  // "super-packets": what arrives as one super-packet, as in a virtual switch, or a router with GRO
  // "device": the uplink's queue is the sender's own qdisc, before segmentation. It drops whole super-packets, and the
  // sender's kernel learns of it at once (NET_XMIT_DROP). Queues behind it drop packets. Needs uplink_mbit, and takes
  // no schedule; the queue holds one super-packet at least.
  kDevice,
};

// A token bucket: a packet that it holds too few tokens for is dropped. It delays nothing.
struct Policer {
  double bytes_per_second = 0;  // 0: no limit
  double burst_bytes = 0;
};

// The rate holds from `at` on, in seconds after the schedule's start.
struct RateChange {
  double at = 0;
  double bytes_per_second = 0;
};

struct Path {
  Nanoseconds delay{};
  Nanoseconds jitter{};  // at most so much longer
  bool reorder = false;
  Pipe pipe;
  double loss = 0;
  double corrupt = 0;
  bool black_hole = false;
};

struct Host {
  std::string site;
  Pipe uplink;
  Pipe site_uplink;  // of all hosts of the site together, to other sites
  Pipe downlink;
  Drops drops = Drops::kPackets;
  Policer policer;                   // behind the uplink
  std::vector<RateChange> schedule;  // of the uplink, by time
  bool inbound = true;               // connections to it are let in
  std::string congestion;            // "": the kernel's default
};

// Connections from one host to another, by their places in Scenario::hosts.
struct ForeignFlows {
  std::size_t from = 0;
  std::size_t to = 0;
  std::size_t connections = 1;
  std::string congestion;  // "": the kernel's default
};

struct Scenario {
  std::uint64_t seed = 1;
  std::vector<Host> hosts;               // grouped by site, in the file's order
  std::vector<std::vector<Path>> paths;  // [from][to]
  std::vector<ForeignFlows> foreign;
};

inline constexpr std::size_t kHostsMax = 64;

// 64 KiB, and the headers of each segment: the burst of the qdisc in tests/wan/run, which segments longer ones.
inline constexpr std::uint32_t kSuperPacketBytesMax = 72'000;

// Returns the limit of the qdisc that is the host's uplink; 0: its queue is not at the device.
std::uint64_t DeviceQueueBytes(const Host& host);

struct ParsedScenario {
  Scenario scenario;
  std::string error;  // empty: it is whole
};

// `name` is for errors.
ParsedScenario ParseScenario(const std::string& toml, const std::string& name);

struct OverriddenScenario {
  std::string toml;
  std::string error;  // empty: it can be parsed
};

// The same scenario with `overrides`, "KEY=VALUE,...": a key of [[site]] is set at every site (SITE.KEY: at one), a key
// of [[path]] alone on every path between sites (on those inside, where there is one site). queue_ms is the sites'.
// The result is checked as ParseScenario does.
OverriddenScenario OverrideScenario(const std::string& toml, const std::string& name, const std::string& overrides);

}  // namespace ringway::wan
