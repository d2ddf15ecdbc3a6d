// The configuration of ringwayd: command line and config file, checked.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "daemon/flow/pacing.h"
#include "daemon/flow/rate_limit.h"
#include "daemon/local/local_server.h"
#include "proto/permits.h"
#include "proto/result.h"
#include "proto/shell/log.h"
#include "proto/shell/tls_options.h"
#include "proto/stream/address.h"

namespace ringway::daemon {

struct Config {
  std::string master;                    // HOST:PORT of ringway-master; of several, with commas between
  std::string socket;                    // path that trainers connect to
  local::SocketFile socket_file;         // of that path
  std::string listen;                    // HOST:PORT that other daemons connect to; port 0: any
  net::SocketAddress listen_address;     // what that was when it was checked
  std::optional<std::string> advertise;  // address for them to dial; "": they cannot; nullopt: the bound one
  std::string http;                      // HOST:PORT for metrics; "": none
  std::string site;
  Permits users;                                         // which users (as numbers) may join which groups
  std::uint64_t site_mbit = 0;                           // what its hosts can send to others together; 0: not known
  std::string name;                                      // with certificates the one on its own
  std::uint32_t lanes = 0;                               // a pair; 0: by the path
  std::string congestion;                                // of links that leave this host; "": by the round trip
  std::uint32_t share = flow::kShareDefault;             // of a path beside others' traffic, in TCP connections
  std::uint32_t state_share = flow::kStateShareDefault;  // of the uplink, for states of newcomers, in percent
  std::uint64_t uplink_limit_mbit = 0;                   // at most, to all other hosts together; 0: any
  std::uint32_t dscp = 0;                                // of links that leave this host
  // At most, for each probe of a path; enough to fill one of 1 Gbit/s and 100 ms.
  std::uint64_t probe_bytes = 128 << 20;
  std::uint64_t probe_bytes_a_day = 1 << 30;  // to each other host; 0: any
  std::uint64_t memory_max = 0;  // for trainers' regions and all that is kept for them; 0 before parsing: half the RAM
  std::uint32_t data_threads = 1;  // 0: by the cores; at least 1 when parsed
  std::uint32_t grace_ms = 30'000;
  std::optional<std::string> flight_file;  // of the flight recorder; "": in memory alone; nullopt: nothing is recorded
  bool insecure = false;
  shell::TlsSetup tls;
  shell::LogOptions log;
  // The values that a reload reads again, from the same command line and the file that it names.
  struct Again {
    std::uint64_t uplink_limit_mbit = 0;
    std::string others;  // options that the file sets otherwise now, with commas between: they wait for a restart
  };
  std::function<Result<Again>()> again = {};
};

// Exits on --help (0) and on any error (one line, 2).
Config ParseConfigOrExit(int argc, char** argv);

}  // namespace ringway::daemon
