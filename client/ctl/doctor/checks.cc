#include "client/ctl/doctor/checks.h"

#include <algorithm>
#include <utility>

#include "client/ctl/doctor/host_checks.h"
#include "client/ctl/doctor/rows.h"
#include "proto/shell/tls_keeper.h"
#include "proto/tls/authority.h"

namespace ringway::ctl {
namespace {

using tls::CredentialFault;
using namespace rows;

// Beyond this, lines of two hosts' logs are hard to put in order.
constexpr std::uint64_t kClockWarnSeconds = 10;
constexpr std::uint64_t kClockFailSeconds = std::chrono::seconds(tls::kClocksDiffer).count();

std::string Reload(const Facts& facts, const std::string& program) {
  return (facts.host.systemd ? "systemctl reload " : "send SIGHUP to reload ") + program;
}

std::string SetClock(const Facts& facts) {
  return facts.host.systemd ? "timedatectl set-ntp true" : "run an NTP client";
}

// ---- what hosts have to agree on

Findings CheckConfigs(const Facts& facts) {
  Findings findings;
  for (const ConfigFacts& config : facts.configs) {
    const Status status = config.outcome.ok() ? config.accepted.value_or(Status::Ok()) : config.outcome;
    const Row& row = config.hidden      ? kConfigHidden
                     : !status.ok()     ? kConfigRefused
                     : !config.accepted ? kConfigUnasked
                                        : kConfigFits;
    findings.push_back(config.hidden ? Say(row, {config.path})
                                     : Say(row, {config.program, config.path, status.text()}));
  }
  return findings;
}

// A new certificate for the program; whoever serves reads it on reload, ringwayctl whenever it runs.
std::string Reissue(const Facts& facts, const CertificateFacts& one) {
  const bool is_daemon = one.whose == kDaemonProgram;
  const bool is_master = one.whose == kMasterProgram;
  const auto role = is_daemon ? ProcessRole::kDaemon : is_master ? ProcessRole::kMaster : ProcessRole::kOperator;
  const Identity old = one.old.value_or(Identity{.role = role, .name = "NAME"});
  const bool fits = one.fault != CredentialFault::kOtherRole;
  return "where the authority is: ringwayctl certs issue " + old.name + " --role " + ToString(fits ? old.role : role) +
         " --dir DIR --out NEW; copy NEW/* " + (one.old ? "over " + one.files.cert : "here") +
         (is_daemon || is_master ? "; " + Reload(facts, one.whose) : std::string());
}

std::string Remedy(const Facts& facts, const CertificateFacts& one) {
  std::string issue = Reissue(facts, one);
  switch (one.fault) {
    case CredentialFault::kKeyExposed:
      return "chmod o= " + one.files.key;
    case CredentialFault::kReplaceable:
      return "chmod o-w what it names, and issue new certificates if somebody may have used that";
    case CredentialFault::kNotYetValid:
      return SetClock(facts) + " (this host's clock is behind, or the issuer's ahead; NTP sets it)";
    case CredentialFault::kAuthority:
      return "copy the ca.pem of the authority that the other hosts have, and " + issue;
    case CredentialFault::kOtherRole:
      return "point --tls-cert and --tls-key at the right files, or " + issue;
    default:
      return issue;
  }
}

Finding JudgeCertificate(const Facts& facts, const CertificateFacts& one) {
  const std::string whose = (one.running ? "running " : "") + one.whose;
  if (!one.hidden.empty()) return Say(kCertificateHidden, {whose, one.hidden});
  if (!one.outcome.ok()) return Say(kCertificateBad, {whose, one.outcome.text(), Remedy(facts, one)});
  if (one.identity.empty()) return Say(one.insecure ? kInTheClear : kNoCertificate, {whose});
  const Level level = one.days_left >= shell::TlsKeeper::kWarnDays.count() ? kOk : one.days_left < 0 ? kFail : kWarn;
  return Say(kCertificate.At(level),
             {whose, one.identity, one.until, std::to_string(one.days_left), Remedy(facts, one)});
}

Findings CheckCertificates(const Facts& facts) {
  Findings findings;
  for (const CertificateFacts& one : facts.certificates) findings.push_back(JudgeCertificate(facts, one));
  return findings;
}

Findings CheckMaster(const Facts& facts) {
  const MasterFacts& master = facts.master;
  if (master.place.empty()) return {Say(kMasterUnknown)};
  if (master.locked_out) return {Say(kMasterNotAsked, {master.place})};
  if (!master.answers()) {
    // It took the connection, and then would not speak.
    const bool differs = master.outcome.code() == Code::kIo || master.outcome.code() == Code::kProtocol;
    if (master.outcome.code() == Code::kResourceExhausted) return {Say(kNoThread, {master.outcome.text()})};
    const Row& row = differs ? kMasterDiffers : kMasterSilent;
    return {Say(row.At(master.expected ? kFail : kWarn), {master.outcome.text()})};
  }
  Findings findings = {Say(kMasterAnswers, {master.place})};
  for (const Json& group : ObjectsAt(master.status, "groups")) {
    for (const Json& peer : ObjectsAt(group, "peers")) {
      const std::string why = TextAt(peer, "why");
      if (TextAt(peer, "state") != "pending" || why.empty()) continue;
      findings.push_back(Say(kPeerPending, {TextAt(peer, "name"), TextAt(group, "name"), why}));
    }
  }
  return findings;
}

Findings CheckDaemon(const Facts& facts) {
  const DaemonFacts& daemon = facts.daemon;
  if (daemon.place.empty()) return {Say(kDaemonUnknown)};
  if (daemon.denied) return {Say(kDaemonDenied, {daemon.place})};
  if (daemon.outcome.code() == Code::kResourceExhausted) return {Say(kNoThread, {daemon.outcome.text()})};
  if (daemon.outcome.code() == Code::kVersionMismatch) return {Say(kDaemonOld, {daemon.outcome.text()})};
  if (!daemon.answers()) {
    const char* start = facts.host.systemd ? "systemctl start ringwayd; journalctl -u ringwayd says why it does not run"
                                           : "start ringwayd; it says on standard error why it does not run";
    return {Say(kDaemonSilent.At(daemon.expected ? kFail : kWarn), {daemon.outcome.text(), start})};
  }
  const Row& row = IsTrue(daemon.self(), "master_connected") ? kDaemonRuns : kDaemonAlone;
  return {Say(row, {TextAt(daemon.self(), "name"), TextAt(daemon.self(), "master")})};
}

std::string RangeText(std::uint64_t min, std::uint64_t max) {
  return std::to_string(min) + (min == max ? "" : " to " + std::to_string(max));
}

// Against ringwayctl.
void CompareRelease(const Facts& facts, const char* whose, const Json& process, Findings& findings) {
  const std::string version = TextAt(process, "version");
  const Json range = At(process, "protocol");
  const bool known = range.is_array() && range.size() == 2;
  const auto min = known ? Count(range[0]) : std::nullopt;
  const auto max = known ? Count(range[1]) : std::nullopt;
  if (min && max && (*min > facts.protocol_max || *max < facts.protocol_min)) {
    findings.push_back(Say(kOtherProtocol, {whose, version, "ringwayctl", facts.version, RangeText(*min, *max),
                                            RangeText(facts.protocol_min, facts.protocol_max)}));
  } else if (version != facts.version) {
    findings.push_back(Say(kOtherRelease, {whose, version, "ringwayctl", facts.version}));
  }
}

Findings CheckVersions(const Facts& facts) {
  if (!facts.daemon.answers() && !facts.master.answers()) return {Say(kNoRelease, {facts.version})};
  Findings findings;
  if (facts.daemon.answers()) CompareRelease(facts, kDaemonProgram, facts.daemon.self(), findings);
  if (facts.master.answers()) CompareRelease(facts, kMasterProgram, facts.master.self(), findings);
  if (findings.empty()) findings.push_back(Say(kSameRelease, {facts.version}));
  return findings;
}

Findings CheckClock(const Facts& facts) {
  if (!facts.master.answers()) return {Say(kNoClock)};
  if (!facts.master.clock_ahead_s) return {Say(kOldClock)};
  const std::int64_t ahead = *facts.master.clock_ahead_s;
  const std::uint64_t skew = ahead < 0 ? 0 - static_cast<std::uint64_t>(ahead) : static_cast<std::uint64_t>(ahead);
  const Level level = skew < kClockWarnSeconds ? kOk : skew < kClockFailSeconds ? kWarn : kFail;
  Finding finding = Say(kClock.At(level), {std::to_string(skew), ahead < 0 ? "behind" : "ahead of", SetClock(facts)});
  if (level == kWarn) finding.what += ": logs are hard to compare";
  if (level == kFail) finding.what += ": new certificates are refused as not yet valid";
  return {finding};
}

// ---- paths

std::string Whom(const DialFacts& dial) { return dial.who + " at " + dial.address; }

Finding JudgeDial(const DialFacts& dial) {
  const bool is_master = dial.who == kTheMaster;
  const std::string option = is_master ? "the address in --master" : "--listen or --advertise of " + dial.who;
  const std::string otherwise =
      is_master ? "" : "; where it cannot be dialled at all: --advertise none there, and it dials";
  const Row* rows[] = {&kPortOpen, &kPortRefuses, &kPortSilent, &kPortFails};  // by DialFacts::Outcome
  return Say(*rows[static_cast<std::size_t>(dial.outcome)],
             {Whom(dial), is_master ? kMasterProgram : kDaemonProgram, option, otherwise, dial.why});
}

// Whether the daemon has lanes to the peer there: the end of a pair that can dial does.
bool HasLinks(const Facts& facts, const DialFacts& dial) {
  for (const Json& group : ObjectsAt(facts.daemon.status, "groups")) {
    for (const Json& member : ObjectsAt(group, "members")) {
      for (const Json& pair : ObjectsAt(group, "pairs")) {
        if (TextAt(member, "address") == dial.address && TextAt(pair, "name") == TextAt(member, "name") &&
            Count(At(pair, "lanes_up")).value_or(0) > 0) {
          return true;
        }
      }
    }
  }
  return false;
}

// Only the connections of others prove that they reach this daemon.
void CheckLinks(const DaemonFacts& daemon, Findings& findings) {
  std::size_t up = 0;
  for (const Json& group : ObjectsAt(daemon.status, "groups")) {
    for (const Json& pair : ObjectsAt(group, "pairs")) {
      const std::string name = TextAt(pair, "name");
      if (Count(At(pair, "lanes_up")).value_or(0) > 0) {
        ++up;
      } else {
        findings.push_back(Say(kNoLane, {name.empty() ? "a newcomer" : name, TextAt(group, "name")}));
      }
    }
  }
  const std::string address = TextAt(daemon.self(), "address");
  findings.push_back(up > 0            ? Say(kLinksStand, {std::to_string(up)})
                     : address.empty() ? Say(kNotAdvertised)
                                       : Say(kWayBackUnknown, {address}));
}

Findings CheckPorts(const Facts& facts) {
  Findings findings;
  for (const DialFacts& dial : facts.dials) {
    findings.push_back(JudgeDial(dial));
    Finding& finding = findings.back();
    if (finding.level == kFail && HasLinks(facts, dial)) {
      finding = {.what = finding.what + "; its own connections to here stand"};
    }
  }
  if (facts.dials_left_out > 0) findings.push_back(Say(kNotDialled, {std::to_string(facts.dials_left_out)}));
  if (facts.daemon.answers()) CheckLinks(facts.daemon, findings);
  if (findings.empty()) findings.push_back(Say(kNothingToDial));
  return findings;
}

Findings CheckMtu(const Facts& facts) {
  Findings findings;
  for (const DialFacts& dial : facts.dials) {
    if (dial.outcome != DialFacts::Outcome::kConnected || dial.within_host) continue;
    const Row& row = !dial.full_arrives ? kPathUnmeasured : *dial.full_arrives ? kPathWhole : kBlackHole;
    findings.push_back(Say(row, {Whom(dial), std::to_string(dial.segment_bytes), std::to_string(dial.path_mtu)}));
  }
  if (findings.empty()) findings.push_back(Say(kNoPath));
  return findings;
}

Findings CheckJournal(const Facts& facts) {
  const std::string state = TextAt(facts.master.self(), "journal");
  if (state.empty()) return {Say(kNoJournalKnown)};
  const Row& row = state == "ok" ? kJournal : state == "none" ? kNoJournal : kJournalFails;
  return {Say(row, {state == "ok" ? TextAt(facts.master.self(), "journal_path") : state})};
}

struct Check {
  const char* name;
  Findings (*judge)(const Facts& facts);
};

constexpr Check kChecks[] = {
    {"config", CheckConfigs},
    {"certificates", CheckCertificates},
    {"master", CheckMaster},
    {"daemon", CheckDaemon},
    {"versions", CheckVersions},
    {"clock", CheckClock},
    {"ports", CheckPorts},
    {"mtu", CheckMtu},
    {"sysctl", CheckSysctls},
    {"congestion", CheckCongestionControl},
    {"descriptors", CheckDescriptors},
    {"memory", CheckMemory},
    {"journal", CheckJournal},
};

}  // namespace

void ReadStatus(const std::string& text, const std::string& kind, ProgramFacts* program,
                std::vector<CertificateFacts>* certificates) {
  program->status = Json::parse(text, nullptr, false);
  const Json self = At(program->status, kind.c_str());
  if (!self.is_object()) {
    program->status = Json();
    program->outcome = {Code::kProtocol, "what answers at " + program->place + " is no " + kind};
  }
  const Json security = At(self, "security");
  if (!security.is_object()) return;  // an older release does not say
  CertificateFacts& facts = certificates->emplace_back();
  facts.whose = kind == "master" ? kMasterProgram : kDaemonProgram;
  facts.running = true;
  facts.identity = TextAt(security, "identity");
  facts.until = TextAt(security, "until");
  const Json days = At(security, "days_left");
  if (days.is_number_integer()) facts.days_left = days.get<std::int64_t>();
  facts.insecure = IsTrue(security, "insecure");
}

Findings Diagnose(const Facts& facts) {
  Findings all;
  for (const Check& check : kChecks) {
    for (Finding& finding : check.judge(facts)) {
      finding.check = check.name;
      if (finding.remedy.starts_with("# ")) finding.remedy.replace(0, 2, facts.host.root ? "" : "as root: ");
      all.push_back(std::move(finding));
    }
  }
  return all;
}

}  // namespace ringway::ctl
