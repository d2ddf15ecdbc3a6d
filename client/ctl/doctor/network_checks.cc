#include "client/ctl/doctor/network_checks.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "proto/shell/tls_keeper.h"
#include "proto/tls/authority.h"

namespace ringway::ctl {
namespace {

using tls::CredentialFault;

// Beyond this, lines of two hosts' logs are hard to put in order.
constexpr std::uint64_t kClockWarnSeconds = 10;
constexpr std::uint64_t kClockFailSeconds = std::chrono::seconds(tls::kClocksDiffer).count();

// A new certificate for the program; whoever serves reads it on reload, ringwayctl whenever it runs.
std::string IssueRemedy(const CertificateFacts& facts) {
  const bool is_daemon = facts.whose == kDaemonProgram;
  const bool is_master = facts.whose == kMasterProgram;
  const auto role = is_daemon ? ProcessRole::kDaemon : is_master ? ProcessRole::kMaster : ProcessRole::kOperator;
  const Identity old = facts.old.value_or(Identity{.role = role, .name = "NAME"});
  const bool fits = facts.fault != CredentialFault::kOtherRole;
  return "where the authority is: ringwayctl certs issue " + old.name + " --role " + ToString(fits ? old.role : role) +
         " --dir DIR --out NEW; copy NEW/* " + (facts.old ? "over " + facts.files.cert : "here") +
         (is_daemon || is_master ? "; systemctl reload " + facts.whose : std::string());
}

std::string Remedy(const CertificateFacts& facts) {
  std::string issue = IssueRemedy(facts);
  switch (facts.fault) {
    case CredentialFault::kKeyExposed:
      return "chmod o= " + facts.files.key;
    case CredentialFault::kReplaceable:
      return "chmod o-w what it names, and issue new certificates if somebody may have used that";
    case CredentialFault::kNotYetValid:
      return "timedatectl set-ntp true (this host's clock is behind, or the issuer's ahead)";
    case CredentialFault::kAuthority:
      return "copy the ca.pem of the authority that the other hosts have, and " + issue;
    case CredentialFault::kOtherRole:
      return "point --tls-cert and --tls-key at the right files, or " + issue;
    default:
      return issue;
  }
}

Finding JudgeCertificate(const CertificateFacts& facts) {
  const std::string whose = (facts.running ? "running " : "") + facts.whose + ": ";
  if (!facts.hidden.empty()) {
    return {.level = Level::kSkip, .what = whose + "this user may not read " + facts.hidden + ": run as root"};
  }
  if (!facts.outcome.ok()) {
    return {.level = Level::kFail, .what = whose + facts.outcome.text(), .remedy = Remedy(facts)};
  }
  if (!facts.denied.empty()) {
    return {.level = Level::kFail,
            .what = whose + facts.denied + ", as whom it runs, may not read " + facts.files.key,
            .remedy = "chown root:ringway " + facts.files.key + "; chmod 640 " + facts.files.key};
  }
  if (facts.identity.empty()) {
    if (!facts.insecure) return {.what = whose + "no certificates: only addresses of this host are used"};
    return {
        .level = Level::kWarn,
        .what = whose + "nothing is encrypted, and whoever reaches the port may join",
        .remedy = "ringwayctl certs init DIR, ringwayctl certs issue NAME --role ROLE --dir DIR, --tls-dir for all"};
  }
  const std::string dates =
      whose + facts.identity + " until " + facts.until + " (" + std::to_string(facts.days_left) + " days)";
  if (facts.days_left >= shell::TlsKeeper::kWarnDays.count()) return {.what = dates};
  return {.level = facts.days_left < 0 ? Level::kFail : Level::kWarn, .what = dates, .remedy = Remedy(facts)};
}

// Whether the files of a running program hold a certificate that lasts longer than the one that it uses.
bool IsRenewed(const CertificateFacts& running, const std::vector<CertificateFacts>& all) {
  return running.running && std::any_of(all.begin(), all.end(), [&](const CertificateFacts& one) {
           return !one.running && one.whose == running.whose && one.outcome.ok() && one.days_left > running.days_left;
         });
}

bool Overlap(const ProtocolRange& a, const ProtocolRange& b) { return a.min <= b.max && b.min <= a.max; }

std::string ToString(const ProtocolRange& range) {
  const std::string min = std::to_string(range.min);
  return range.min == range.max ? min : min + " to " + std::to_string(range.max);
}

// A program that answered with its status.
struct Release {
  std::string whose;
  std::string version;
  std::optional<ProtocolRange> protocol;
};

Findings CompareReleases(const Release& a, const Release& b) {
  if (a.protocol && b.protocol && !Overlap(*a.protocol, *b.protocol)) {
    return {{.level = Level::kFail,
             .what = a.whose + " " + a.version + " speaks protocol " + ToString(*a.protocol) + ", " + b.whose + " " +
                     b.version + " " + ToString(*b.protocol) + ": they do not understand each other",
             .remedy = "install the same release on all hosts, and restart what is older"}};
  }
  if (a.version == b.version) return {};
  return {{.level = Level::kWarn,
           .what = a.whose + " is " + a.version + ", " + b.whose + " " + b.version + ": they understand each other",
           .remedy = "finish the upgrade: install the same release, and restart what is older"}};
}

Finding JudgeDial(const DialFacts& dial) {
  const std::string whom = dial.who + " at " + dial.address;
  const bool is_master = dial.who == kTheMaster;
  switch (dial.outcome) {
    case DialFacts::Outcome::kConnected:
      return {.what = whom + " accepts connections from here"};
    case DialFacts::Outcome::kRefused:
      return {.level = Level::kFail,
              .what = whom + " refuses connections: nothing listens there",
              .remedy =
                  is_master
                      ? "start it there (systemctl start ringway-master), or correct the address in --master"
                      : "start it there (systemctl start ringwayd), or correct --listen or --advertise of " + dial.who};
    case DialFacts::Outcome::kTimeout:
      return {.level = Level::kFail,
              .what = whom + " does not answer: packets to it get lost",
              .remedy = is_master ? "open its port in the firewalls between, or correct the address in --master"
                                  : "open its port in the firewalls between, or correct --advertise of " + dial.who +
                                        "; where it cannot be dialled at all: --advertise none there, and it dials"};
    case DialFacts::Outcome::kFailed:
      break;
  }
  return {
      .level = Level::kFail, .what = whom + ": " + dial.why, .remedy = "look at its address and at the routes here"};
}

// Whoever of a pair can dial does.
bool HasLinks(const Facts& facts, const DialFacts& dial) {
  if (!facts.daemon || !facts.daemon->outcome.ok()) return false;
  const auto& members = facts.daemon->members;
  return std::any_of(members.begin(), members.end(), [&](const DaemonEntry& member) {
    const auto& pairs = facts.daemon->pairs;
    return member.address == dial.address && std::any_of(pairs.begin(), pairs.end(), [&](const PairFacts& pair) {
             return pair.to == member.name && pair.lanes_up > 0;
           });
  });
}

// REQUIRES: it connected, to another host.
Finding JudgePath(const DialFacts& dial) {
  const std::string whom = dial.who + " at " + dial.address;
  const std::string size =
      std::to_string(dial.segment_bytes) + " bytes of data, path MTU " + std::to_string(dial.path_mtu);
  if (!dial.full_arrives) {
    return {.level = Level::kSkip, .what = whom + " closed the connection before it could be measured"};
  }
  if (*dial.full_arrives) {
    return {.what = "full-size packets reach " + whom + " (" + size + "); the way back is measured from there"};
  }
  return {.level = Level::kFail,
          .what = whom + " accepts connections, but full-size packets (" + size + ") vanish on the way",
          .remedy =
              "sysctl -w net.ipv4.tcp_mtu_probing=1; better: let ICMP \"fragmentation needed\" through the "
              "firewalls, or lower the MTU here (ip link set dev DEVICE mtu 1400)"};
}

// What only the other side's connections prove.
Finding JudgeWayBack(const Facts& facts) {
  const auto& pairs = facts.daemon->pairs;
  const auto up = std::count_if(pairs.begin(), pairs.end(), [](const PairFacts& pair) { return pair.lanes_up > 0; });
  if (up > 0) {
    return {.what = "links to " + std::to_string(up) + " peers stand"};
  }
  if (facts.daemon->address.empty()) {
    return {.level = Level::kSkip, .what = "nobody can dial this daemon (--advertise none): it dials the others"};
  }
  return {.level = Level::kSkip,
          .what = "whether others reach this daemon at " + facts.daemon->address +
                  " is seen from their hosts only: run ringwayctl doctor there"};
}

}  // namespace

Findings CheckConfigs(const Facts& facts) {
  Findings findings;
  for (const ConfigFacts& config : facts.configs) {
    const Status status = config.outcome.ok() ? config.accepted.value_or(Status::Ok()) : config.outcome;
    if (!status.ok()) {
      findings.push_back(
          {.level = Level::kFail,
           .what = status.text(),
           .remedy = "correct it; then " + config.program + " --config " + config.path + " --check-config"});
    } else if (!config.accepted) {
      findings.push_back(
          {.level = Level::kSkip, .what = config.path + " is TOML; " + config.program + " was not asked"});
    } else {
      findings.push_back({.what = config.program + " accepts " + config.path});
    }
  }
  return findings;
}

Findings CheckCertificates(const Facts& facts) {
  Findings findings;
  for (const CertificateFacts& one : facts.certificates) {
    findings.push_back(JudgeCertificate(one));
    if (findings.back().level != Level::kOk && IsRenewed(one, facts.certificates)) {
      findings.back().remedy = "systemctl reload " + one.whose + " (its files have a newer one)";
    }
  }
  return findings;
}

Findings CheckMaster(const Facts& facts) {
  if (!facts.master) return {{.level = Level::kSkip, .what = "nobody says where it is: give --master HOST:PORT"}};
  const MasterFacts& master = *facts.master;
  if (master.locked_out) {
    return {{.level = Level::kSkip,
             .what = "the master at " + master.address + " is not asked: that takes certificates; give --tls-dir"}};
  }
  if (!master.outcome.ok()) {
    // It took the connection, and then would not speak.
    const bool differs = master.outcome.code() == Code::kIo || master.outcome.code() == Code::kProtocol;
    return {{.level = master.expected ? Level::kFail : Level::kWarn,
             .what = master.outcome.text(),
             .remedy = differs ? "compare the certificates here and there (ringwayctl certs show FILE): one authority "
                                 "issues both; or correct the address"
                               : "systemctl start ringway-master on its host, or correct the address"}};
  }
  Findings findings = {{.what = "the master at " + master.address + " answers"}};
  for (const PendingPeer& peer : master.pending) {
    findings.push_back({.level = Level::kWarn,
                        .what = "peer " + peer.name + " is not in group " + peer.group + " yet: " + peer.why,
                        .remedy = "if that stays: ringwayctl doctor on its host"});
  }
  return findings;
}

Findings CheckDaemon(const Facts& facts) {
  if (!facts.daemon) return {{.level = Level::kSkip, .what = "nobody says where it is: give --socket PATH"}};
  const DaemonFacts& daemon = *facts.daemon;
  if (daemon.outcome.code() == Code::kVersionMismatch) {
    return {{.level = Level::kFail,
             .what = daemon.outcome.text(),
             .remedy = "install the same release of ringwayd, ringwayctl and the library, and restart ringwayd"}};
  }
  if (!daemon.outcome.ok()) {
    return {{.level = daemon.expected ? Level::kFail : Level::kWarn,
             .what = daemon.outcome.text(),
             .remedy = "systemctl start ringwayd; journalctl -u ringwayd says why it does not run"}};
  }
  if (!daemon.master_connected) {
    return {{.level = Level::kFail,
             .what = "daemon " + daemon.name + " has no connection to its master at " + daemon.master +
                     ": nobody can join, and no loss can be recovered",
             .remedy = "journalctl -u ringwayd | grep master_ (the reason); start the master, or correct --master"}};
  }
  Findings findings = {{.what = "daemon " + daemon.name + " runs, connected to the master at " + daemon.master}};
  if (!facts.master || !facts.master->outcome.ok()) return findings;
  const auto& entries = facts.master->daemons;
  const bool listed = std::any_of(entries.begin(), entries.end(), [&](const DaemonEntry& entry) {
    return entry.name == daemon.name && entry.connected;
  });
  if (!listed) {
    findings.push_back({.level = Level::kWarn,
                        .what = "the master at " + facts.master->address + " does not list daemon " + daemon.name +
                                ", which is connected to " + daemon.master,
                        .remedy = "give the same --master to all daemons"});
  }
  return findings;
}

Findings CheckVersions(const Facts& facts) {
  const Release self = {.whose = "ringwayctl", .version = facts.version, .protocol = facts.protocol};
  std::vector<Release> running;
  if (facts.daemon && facts.daemon->outcome.ok()) {
    running.push_back({.whose = "ringwayd", .version = facts.daemon->version, .protocol = facts.daemon->protocol});
  }
  if (facts.master && facts.master->outcome.ok()) {
    running.push_back(
        {.whose = "ringway-master", .version = facts.master->version, .protocol = facts.master->protocol});
  }
  if (running.empty()) return {{.level = Level::kSkip, .what = "nothing runs to compare ringwayctl " + facts.version}};
  Findings findings;
  for (const Release& one : running) {
    for (Finding& finding : CompareReleases(one, self)) findings.push_back(std::move(finding));
  }
  if (running.size() == 2) {
    for (Finding& finding : CompareReleases(running[0], running[1])) findings.push_back(std::move(finding));
  }
  if (findings.empty()) findings.push_back({.what = "all " + facts.version});
  return findings;
}

Findings CheckClock(const Facts& facts) {
  if (!facts.master || !facts.master->outcome.ok()) {
    return {{.level = Level::kSkip, .what = "no master answered that could tell its time"}};
  }
  if (!facts.master->clock_ahead_s) {
    return {{.level = Level::kSkip, .what = "the master does not tell its time: it is older"}};
  }
  const std::int64_t ahead = *facts.master->clock_ahead_s;
  const std::uint64_t skew = ahead < 0 ? 0 - static_cast<std::uint64_t>(ahead) : static_cast<std::uint64_t>(ahead);
  const std::string what =
      "the master's clock is " + std::to_string(skew) + " s " + (ahead < 0 ? "behind" : "ahead of") + " this host's";
  if (skew < kClockWarnSeconds) return {{.what = what}};
  const std::string remedy = "timedatectl set-ntp true, on the host whose clock is wrong";
  if (skew < kClockFailSeconds) {
    return {{.level = Level::kWarn, .what = what + ": logs are hard to compare", .remedy = remedy}};
  }
  return {{.level = Level::kFail, .what = what + ": new certificates are refused as not yet valid", .remedy = remedy}};
}

Findings CheckPorts(const Facts& facts) {
  Findings findings;
  for (const DialFacts& dial : facts.dials) {
    Finding finding = JudgeDial(dial);
    if (finding.level == Level::kFail && HasLinks(facts, dial)) {
      finding = {.what = finding.what + "; its own connections to here stand"};
    }
    findings.push_back(std::move(finding));
  }
  if (facts.dials_left_out > 0) {
    findings.push_back({.level = Level::kSkip,
                        .what = std::to_string(facts.dials_left_out) + " more daemons were not dialled: run ringwayctl "
                                                                       "doctor on their hosts"});
  }
  if (facts.daemon && facts.daemon->outcome.ok()) {
    for (const PairFacts& pair : facts.daemon->pairs) {
      if (pair.lanes_up > 0) continue;
      findings.push_back({.level = Level::kFail,
                          .what = "no lane to " + pair.to + " of group " + pair.group + " stands",
                          .remedy = "ringwayctl doctor on its host; open the daemons' ports to each other"});
    }
    findings.push_back(JudgeWayBack(facts));
  }
  if (findings.empty()) findings.push_back({.level = Level::kSkip, .what = "no address is known to dial"});
  return findings;
}

Findings CheckMtu(const Facts& facts) {
  Findings findings;
  for (const DialFacts& dial : facts.dials) {
    const bool has_path = dial.outcome == DialFacts::Outcome::kConnected && !dial.within_host;
    if (has_path) findings.push_back(JudgePath(dial));
  }
  // It stands, and nothing of use comes back: the other direction may be the broken one.
  if (facts.master && facts.master->outcome.code() == Code::kTimeout && !facts.master->within_host) {
    findings.push_back({.level = Level::kWarn,
                        .what = "the master at " + facts.master->address +
                                " does not answer: it hangs, or full-size packets from there to here vanish",
                        .remedy = "ringwayctl doctor on the master's host measures that way"});
  }
  if (findings.empty()) findings.push_back({.level = Level::kSkip, .what = "no path to another host is known"});
  return findings;
}

}  // namespace ringway::ctl
