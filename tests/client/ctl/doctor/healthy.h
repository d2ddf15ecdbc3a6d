// Facts of a host on which nothing hurts, for tests to break one at a time.
#pragma once

#include <optional>
#include <string>

#include "client/ctl/doctor/checks.h"

namespace ringway::ctl {

// The kernel's file has this text; nullopt: it cannot be read.
inline void SetFile(Facts* facts, const std::string& path, const std::optional<std::string>& text) {
  facts->host.read = [before = facts->host.read, path, text](const std::string& asked) {
    return asked == path ? text : before ? before(asked) : std::nullopt;
  };
}

inline void SetMemory(Facts* facts, int total_gib, int available_gib) {
  SetFile(facts, "/proc/meminfo",
          "MemTotal:       " + std::to_string(total_gib << 20) +
              " kB\nMemFree: 7 kB\nMemAvailable:   " + std::to_string(available_gib << 20) + " kB\n");
}

// The limit of the cgroup of the daemon of Healthy.
inline void SetCgroup(Facts* facts, const std::string& bytes) {
  SetFile(facts, "/proc/77/comm", "ringwayd\n");
  SetFile(facts, "/proc/77/cgroup", "0::/system.slice/ringwayd.service\n");
  SetFile(facts, "/sys/fs/cgroup/system.slice/ringwayd.service/memory.max", bytes + "\n");
}

inline Facts Healthy() {
  Facts facts;
  facts.version = "1.2.3";
  facts.protocol_min = 5;
  facts.protocol_max = 6;
  facts.configs.push_back(
      {.program = "ringwayd", .path = "/etc/ringway/ringwayd.toml", .outcome = {}, .accepted = Status::Ok()});
  CertificateFacts certificate;
  certificate.whose = "ringwayd";
  certificate.files = {.ca = "ca.pem", .cert = "a.pem", .key = "a.key"};
  certificate.identity = "daemon a";
  certificate.until = "2027-11-26";
  certificate.days_left = 300;
  facts.certificates.push_back(certificate);
  facts.master.place = "10.0.0.1:7400";
  facts.master.clock_ahead_s = -1;
  facts.master.status = Json::parse(R"({
    "master": {"version": "1.2.3", "protocol": [5, 6], "journal": "ok", "journal_path": "/j.db"},
    "daemons": [{"name": "a", "address": "10.0.0.1:7401", "connected": true},
                {"name": "b", "address": "10.0.0.2:7401", "connected": true}]})");
  facts.daemon.place = "/run/ringway/ringwayd.sock";
  facts.daemon.status = Json::parse(R"({
    "daemon": {"name": "a", "address": "10.0.0.1:7401", "pid": 77, "master": "10.0.0.1:7400",
               "master_connected": true, "version": "1.2.3", "protocol": [5, 6], "memory": {"max": 8589934592},
               "descriptors": {"limit": 65536, "lanes": 0, "lanes_max": 30000}},
    "groups": [{"name": "g", "self": 1, "pairs": [{"name": "b", "lanes_up": 11}], "members": []}]})");
  DialFacts dial;
  dial.who = "daemon b";
  dial.address = "10.0.0.2:7401";
  dial.outcome = DialFacts::Outcome::kConnected;
  dial.segment_bytes = 1448;
  dial.full_arrives = true;
  dial.path_mtu = 1500;
  facts.dials.push_back(dial);
  facts.host.root = facts.host.systemd = true;
  facts.host.sysctl_conf =
      "# why\n; or\n\n  net.ipv4.tcp_slow_start_after_idle = 0\nnet.ipv4.tcp_rmem=4096 131072\t67108864\nno setting\n";
  SetFile(&facts, "/proc/sys/net/ipv4/tcp_slow_start_after_idle", "0\n");
  SetFile(&facts, "/proc/sys/net/ipv4/tcp_rmem", "4096\t9\t67108864\n");
  SetFile(&facts, "/proc/sys/net/ipv4/tcp_available_congestion_control", "reno cubic bbr\n");
  SetFile(&facts, "/proc/sys/net/ipv4/tcp_allowed_congestion_control", "reno cubic bbr\n");
  SetMemory(&facts, 16, 12);
  return facts;
}

// The worst of a check's findings; one of kOk without words if it has none.
inline Finding Worst(const Facts& facts, const std::string& check) {
  Finding worst;
  for (const Finding& finding : Diagnose(facts)) {
    if (finding.check == check && (worst.what.empty() || finding.level > worst.level)) worst = finding;
  }
  return worst;
}

}  // namespace ringway::ctl
