// What is known of a host and of the programs on it, for `ringwayctl doctor`: as the programs and the kernel say it.
// Gathered by doctor.cc and judged by checks.h. Values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "client/ctl/doctor/status.h"
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
  bool no_thread = false;               // none could start to read it
};

// The certificate in a program's files, or the one that a running program says it uses.
struct CertificateFacts : SecurityFacts {
  std::string whose;           // "ringwayd"
  bool running = false;        // as its status says; else the files
  tls::CredentialFiles files;  // empty for a running one
  Status outcome;              // of loading them
  tls::CredentialFault fault = tls::CredentialFault::kNone;
  std::optional<Identity> old;  // the identity in the file's certificate; nullopt: there is none
  std::string hidden;           // the file that ringwayctl's user may not read; empty: none
  bool no_thread = false;       // none could start to load them
};

// A program that was asked for its status.
struct ProgramFacts {
  std::string place;       // its address or socket; empty: not known
  bool expected = true;    // named by more than its own config file
  bool no_thread = false;  // none could start to ask it
  Status outcome;          // of the query
  Json status;             // null: it did not answer

  bool answers() const { return !status.is_null(); }
};

struct MasterFacts : ProgramFacts {
  bool locked_out = false;  // it needs certificates and ringwayctl has none that it can use: it is not asked
  std::optional<std::int64_t> clock_ahead_s;  // nullopt: an older release does not tell its time
  const Json& self() const { return At(status, "master"); }
};

struct DaemonFacts : ProgramFacts {
  bool denied = false;  // ringwayctl's user may not connect to the socket
  const Json& self() const { return At(status, "daemon"); }
};

struct DialFacts {
  enum class Outcome : std::uint8_t { kConnected, kRefused, kTimeout, kFailed, kNoThread };
  std::string who;  // "daemon b"
  std::string address;
  Outcome outcome = Outcome::kFailed;
  std::string why = {};                   // of kFailed
  bool within_host = false;               // no path between hosts: its packets are not measured
  std::uint32_t segment_bytes = 0;        // a full-size segment's payload
  std::optional<bool> full_arrives = {};  // whether a full-size segment was acknowledged; nullopt: not known
  std::uint32_t path_mtu = 0;             // as the kernel knows it afterwards
};

struct HostFacts {
  // The first bytes of a file of the kernel; nullopt if it cannot be read. The one member that is no value.
  std::function<std::optional<std::string>(const std::string& path)> read;
  bool root = false;                         // ringwayctl runs as root
  bool systemd = false;                      // it runs this host, and has a unit of Ringway
  std::string sysctl_conf;                   // deploy/sysctl.d
  std::optional<std::uint64_t> descriptors;  // the limit of open files of a daemon that is started from here
  // Options in the daemon's config file.
  std::string congestion;  // "": the default
  std::optional<std::uint64_t> memory_max;
};

struct Facts {
  std::string version;  // of ringwayctl
  std::uint64_t protocol_min = 0;
  std::uint64_t protocol_max = 0;
  std::vector<ConfigFacts> configs;
  std::vector<CertificateFacts> certificates;
  MasterFacts master;  // of several the one that leads, if it is found
  std::vector<ProgramFacts> other_masters;
  DaemonFacts daemon;
  std::vector<DialFacts> dials;
  std::size_t dials_left_out = 0;
  HostFacts host;
};

}  // namespace ringway::ctl
