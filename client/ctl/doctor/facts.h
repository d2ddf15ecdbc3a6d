// What is known of a host and of the programs on it, for `ringwayctl doctor`. Values, gathered by doctor.cc and
// judged by checks.h. An empty optional is what could not be learnt.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "proto/result.h"
#include "proto/tls/credentials.h"

namespace ringway::ctl {

inline constexpr char kDaemonProgram[] = "ringwayd";
inline constexpr char kMasterProgram[] = "ringway-master";
inline constexpr char kTheMaster[] = "the master";  // as who is dialled

// A config file that was to be read.
struct ConfigFacts {
  std::string program;  // whose it is
  std::string path;
  Status outcome = {};                  // of reading it
  std::optional<Status> accepted = {};  // the program's own verdict; nullopt: it was not asked
  bool hidden = false;                  // ringwayctl's user may not read it
};

// The certificate in a program's files, or the one that a running program says it uses.
struct CertificateFacts {
  std::string whose;           // "ringwayd"
  bool running = false;        // as its status says; else the files
  tls::CredentialFiles files;  // empty for a running one
  Status outcome;              // of loading them
  tls::CredentialFault fault = tls::CredentialFault::kNone;
  std::optional<Identity> old;  // the identity in the file's certificate; nullopt: there is none
  std::string hidden;           // the file that ringwayctl's user may not read; empty: none
  std::string denied;           // the program's user ("uid 998"), if it may not read its key; else empty
  gid_t denied_group = 0;       // that user's group
  std::string identity;         // "daemon a"; empty: no certificate, nothing is encrypted
  std::string until;            // its last day
  std::int64_t days_left = 0;
  bool insecure = false;  // not encrypted, and reachable from other hosts
};

struct ProtocolRange {
  std::uint32_t min = 0;
  std::uint32_t max = 0;
};

struct PendingPeer {
  std::string group;
  std::string name;
  std::string why;
};

struct DaemonEntry {
  std::string name;
  std::string address;
  bool connected = false;
};

// `outcome` is the query's; if it failed, the rest is empty.
struct MasterFacts {
  std::string address;
  bool expected = true;      // named by more than its own config file
  bool locked_out = false;   // it needs certificates and ringwayctl has none that it can use: it is not asked
  bool within_host = false;  // it runs here
  Status outcome;
  std::string version;
  std::optional<ProtocolRange> protocol;
  std::string utc;  // its time of day when it answered; empty: an older release
  std::optional<std::int64_t> clock_ahead_s;
  std::string journal;  // "ok", "none", or why it cannot be written
  std::string journal_path;
  std::vector<DaemonEntry> daemons;
  std::vector<PendingPeer> pending;
};

struct PairFacts {
  std::string group;
  std::string to;
  std::uint64_t lanes_up = 0;
};

struct DaemonFacts {
  std::string socket;
  bool expected = true;
  bool denied = false;  // ringwayctl's user may not connect to the socket
  Status outcome;
  std::string name;
  std::string address;
  std::string master;
  std::string version;
  std::optional<ProtocolRange> protocol;
  std::int64_t pid = 0;  // 0: unknown
  bool master_connected = false;
  std::optional<std::uint64_t> memory_max;
  std::optional<std::uint64_t> memory_used;
  std::optional<std::uint64_t> descriptors;
  std::uint64_t lanes = 0;
  std::uint64_t lanes_max = 0;
  std::vector<PairFacts> pairs;
  std::vector<DaemonEntry> members;  // of its groups, without itself
};

struct DialFacts {
  enum class Outcome : std::uint8_t { kConnected, kRefused, kTimeout, kFailed };
  std::string who;  // "daemon b"
  std::string address;
  Outcome outcome = Outcome::kFailed;
  std::string why = {};                   // of kFailed
  bool within_host = false;               // no path between hosts: its packets are not measured
  std::uint32_t segment_bytes = 0;        // a full-size segment's payload
  std::optional<bool> full_arrives = {};  // whether a full-size segment was acknowledged
  std::uint32_t path_mtu = 0;             // as the kernel knows it afterwards
};

// A kernel setting of deploy/sysctl.d, and its value here.
struct SysctlFacts {
  std::string name;  // "net.ipv4.tcp_rmem"
  std::string wanted;
  std::optional<std::string> value;  // nullopt: this kernel lacks or hides it
};

struct CongestionFacts {
  std::string wanted;     // the daemon's option; "": the default
  std::string available;  // names, separated by blanks
  std::string allowed;    // those that users other than root may choose
};

struct HostFacts {
  bool root = false;               // ringwayctl runs as root
  bool systemd = false;            // it runs this host
  std::vector<std::string> units;  // programs that it has a unit of
  std::vector<SysctlFacts> sysctls;
  CongestionFacts congestion;
  bool other_network = false;  // the daemon runs in another network namespace than ringwayctl
  bool of_daemon = false;      // the limits below are the running daemon's; else what one started from here would get
  std::optional<std::uint64_t> descriptors;
  std::optional<std::uint64_t> address_space;  // nullopt: no limit
  std::optional<std::uint64_t> memory_bytes;
  std::optional<std::uint64_t> memory_available;
  std::optional<std::uint64_t> cgroup_max;  // the lowest of its cgroup and those above
  std::optional<std::uint64_t> memory_max;  // the option in the daemon's config file
};

// The directory that the master's journal is in.
struct JournalFacts {
  std::string path;     // "": not known
  bool left = false;    // no master answered: this journal was found where one would keep it
  bool hidden = false;  // ringwayctl's user may not write into the directory
  Status probe;         // of writing a file there and syncing it
  std::int64_t sync_us = 0;
  std::optional<std::uint64_t> free_bytes;
  bool in_memory = false;  // a file system that does not survive a reboot
};

struct Facts {
  std::string version;  // of ringwayctl
  ProtocolRange protocol;
  std::vector<ConfigFacts> configs;
  std::vector<CertificateFacts> certificates;
  std::optional<MasterFacts> master;  // nullopt: its address is not known
  std::optional<DaemonFacts> daemon;
  std::vector<DialFacts> dials;
  std::size_t dials_left_out = 0;
  HostFacts host;
  std::optional<JournalFacts> journal;  // nullopt: no master runs, or is to run, here
};

}  // namespace ringway::ctl
