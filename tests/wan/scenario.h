// What an emulated WAN looks like: hosts at sites, each with an uplink, and a path for every ordered pair of hosts.
//
// A scenario is a TOML file:
//
//   seed = 1                          # of losses and corruption
//   [default]                         # of all paths between sites; the same keys as in [[path]]
//   delay_ms = 50                     # one way
//   [inside]                          # of all paths between hosts of one site
//   delay_ms = 0.1
//   [[site]]
//   name = "us-east"
//   hosts = 2                         # 1 by default
//   uplink_mbit = 400                 # of each host; 0: no limit
//   shared_mbit = 1000                # of all hosts of the site together, to other sites; 0: no limit
//   queue_ms = 50                     # drop-tail, of each of the two: how long its bytes take at its rate
//   [[path]]                          # a later one wins, key by key
//   between = ["us-east", "us-west"]  # both ways; or from = "...", to = "..." for one way
//   delay_ms = 30
//   mbit = 100                        # 0: no limit but the uplink's
//   queue_ms = 50
//   loss = 0.001                      # of each MTU-sized packet, 0 .. 1
//   corrupt = 1e-6                    # a byte of the payload is changed, and TCP's checksum made right
//   black_hole = false
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

struct Path {
  Nanoseconds delay{};
  Pipe pipe;
  double loss = 0;
  double corrupt = 0;
  bool black_hole = false;
};

struct Host {
  std::string site;
  Pipe uplink;
  Pipe way_out;  // of all hosts of the site together, to other sites
};

struct Scenario {
  std::uint64_t seed = 1;
  std::vector<Host> hosts;               // grouped by site, in the file's order
  std::vector<std::vector<Path>> paths;  // [from][to]
};

inline constexpr std::size_t kHostsMax = 64;

struct ParsedScenario {
  Scenario scenario;
  std::string error;  // empty: it is whole
};

// `name` is for errors.
ParsedScenario ParseScenario(const std::string& toml, const std::string& name);

}  // namespace ringway::wan
