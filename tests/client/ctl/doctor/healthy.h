// Facts of a host on which nothing hurts, for tests to break one at a time.
#pragma once

#include <algorithm>
#include <string>

#include "client/ctl/doctor/checks.h"

namespace ringway::ctl {

inline Facts Healthy() {
  Facts facts;
  facts.version = "1.2.3";
  facts.protocol = {.min = 5, .max = 6};
  facts.configs.push_back(
      {.program = "ringwayd", .path = "/etc/ringway/ringwayd.toml", .outcome = {}, .accepted = Status::Ok()});
  CertificateFacts certificate;
  certificate.whose = "ringwayd";
  certificate.files = {.ca = "ca.pem", .cert = "a.pem", .key = "a.key"};
  certificate.identity = "daemon a";
  certificate.until = "2027-11-26";
  certificate.days_left = 300;
  facts.certificates.push_back(certificate);
  MasterFacts master;
  master.address = "10.0.0.1:7400";
  master.version = "1.2.3";
  master.protocol = facts.protocol;
  master.clock_ahead_s = -1;
  master.journal = "ok";
  master.daemons = {{.name = "a", .address = "10.0.0.1:7401", .connected = true},
                    {.name = "b", .address = "10.0.0.2:7401", .connected = true}};
  facts.master = master;
  DaemonFacts daemon;
  daemon.socket = "/run/ringway/ringwayd.sock";
  daemon.name = "a";
  daemon.address = "10.0.0.1:7401";
  daemon.master = "10.0.0.1:7400";
  daemon.version = "1.2.3";
  daemon.protocol = facts.protocol;
  daemon.master_connected = true;
  daemon.memory_max = std::uint64_t{8} << 30;
  daemon.descriptors = 65536;
  daemon.lanes_max = 30000;
  daemon.pairs = {{.group = "g", .to = "b", .lanes_up = 11}};
  facts.daemon = daemon;
  DialFacts dial;
  dial.who = "daemon b";
  dial.address = "10.0.0.2:7401";
  dial.outcome = DialFacts::Outcome::kConnected;
  dial.segment_bytes = 1448;
  dial.full_arrives = true;
  dial.path_mtu = 1500;
  facts.dials.push_back(dial);
  facts.host.root = facts.host.systemd = true;
  facts.host.units = {kDaemonProgram, kMasterProgram};
  facts.host.sysctls = {{.name = "net.ipv4.tcp_slow_start_after_idle", .wanted = "0", .value = "0"},
                        {.name = "net.ipv4.tcp_rmem", .wanted = "4096 131072 67108864", .value = "4096 9 67108864"}};
  facts.host.congestion = {.wanted = "", .available = "reno cubic bbr", .allowed = "reno cubic bbr"};
  facts.host.memory_bytes = std::uint64_t{16} << 30;
  facts.host.memory_available = std::uint64_t{12} << 30;
  JournalFacts journal;
  journal.path = "/var/lib/ringway/master-7400.db";
  journal.free_bytes = std::uint64_t{20} << 30;
  journal.sync_us = 900;
  facts.journal = journal;
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
