#include "client/ctl/doctor/checks.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>
#include <vector>

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

// The findings of one check that may find something at each of many peers.
constexpr std::size_t kFindingsMax = 64;

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
    const Row& row = config.no_thread   ? kNoThread
                     : config.hidden    ? kConfigHidden
                     : !status.ok()     ? kConfigRefused
                     : !config.accepted ? kConfigUnasked
                                        : kConfigFits;
    findings.push_back(config.no_thread || config.hidden ? Say(row, {config.path})
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
  if (one.no_thread) return Say(kNoThread, {"the certificate of " + whose});
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

// A status may have millions of peers, if a hostile program says so: what is left out is counted.
void AddBounded(Finding finding, Findings& findings, std::size_t* left_out) {
  if (findings.size() < kFindingsMax) return findings.push_back(std::move(finding));
  ++*left_out;
}

// Judges those among several masters that do not lead.
void CheckOtherMasters(const Facts& facts, Findings& findings) {
  for (const ProgramFacts& other : facts.other_masters) {
    findings.push_back(other.answers() ? Say(kOtherStandsBy, {other.place})
                                       : Say(kOtherSilent, {other.outcome.text()}));
  }
}

// What the master says of who leads.
Finding JudgeLeader(const Facts& facts) {
  const MasterFacts& master = facts.master;
  if (TextAt(master.self(), "role") != "standby") return Say(kMasterAnswers, {master.place});
  const std::string leader = TextAt(master.self(), "leader");
  // Where several were asked, none of them led.
  if (leader.empty() || !facts.other_masters.empty()) return Say(kNobodyLeads);
  return Say(kMasterStandsBy, {master.place, leader});
}

Findings CheckMaster(const Facts& facts) {
  const MasterFacts& master = facts.master;
  if (master.place.empty()) return {Say(kMasterUnknown)};
  if (master.locked_out) return {Say(kMasterNotAsked, {master.place})};
  if (master.no_thread) return {Say(kNoThread, {master.place})};
  if (!master.answers()) {
    // It took the connection, and then would not speak.
    const bool differs = master.outcome.code() == Code::kIo || master.outcome.code() == Code::kProtocol;
    const bool hangs = master.outcome.code() == Code::kTimeout;
    const Row& row = differs ? kMasterDiffers : hangs ? kNoAnswer : kMasterSilent;
    Findings silent = {Say(row.At(master.expected ? kFail : kWarn), {master.outcome.text()})};
    CheckOtherMasters(facts, silent);
    return silent;
  }
  Findings findings = {JudgeLeader(facts)};
  CheckOtherMasters(facts, findings);
  std::size_t left_out = 0;
  for (const Json& group : ObjectsAt(master.status, "groups")) {
    for (const Json& peer : ObjectsAt(group, "peers")) {
      const std::string why = TextAt(peer, "why");
      if (TextAt(peer, "state") != "pending" || why.empty()) continue;
      AddBounded(Say(kPeerPending, {TextAt(peer, "name"), TextAt(group, "name"), why}), findings, &left_out);
    }
  }
  if (left_out > 0) findings.push_back(Say(kMorePending, {std::to_string(left_out)}));
  return findings;
}

Findings CheckDaemon(const Facts& facts) {
  const DaemonFacts& daemon = facts.daemon;
  if (daemon.place.empty()) return {Say(kDaemonUnknown)};
  if (daemon.denied) return {Say(kDaemonDenied, {daemon.place})};
  if (daemon.no_thread) return {Say(kNoThread, {daemon.place})};
  if (daemon.outcome.code() == Code::kResourceExhausted) return {Say(kDaemonFull, {daemon.outcome.text()})};
  if (daemon.outcome.code() == Code::kVersionMismatch) return {Say(kDaemonOld, {daemon.outcome.text()})};
  if (daemon.outcome.code() == Code::kTimeout) return {Say(kNoAnswer, {daemon.outcome.text()})};
  if (!daemon.answers()) {
    const char* start = facts.host.systemd ? "systemctl start ringwayd; journalctl -u ringwayd says why it does not run"
                                           : "start ringwayd; it says on standard error why it does not run";
    return {Say(kDaemonSilent.At(daemon.expected ? kFail : kWarn), {daemon.outcome.text(), start})};
  }
  const Row& row = IsTrue(daemon.self(), "master_connected") ? kDaemonRuns : kDaemonAlone;
  return {Say(row, {TextAt(daemon.self(), "name"), TextAt(daemon.self(), "master")})};
}

struct Release {
  std::string program;
  std::string version;
  std::optional<std::uint64_t> min = {};  // of the protocol; nullopt: not known
  std::optional<std::uint64_t> max = {};
};

Release ReleaseOf(const char* program, const Json& process) {
  Release release = {.program = program, .version = TextAt(process, "version")};
  const Json& range = At(process, "protocol");
  if (range.is_array() && range.size() == 2 && Count(range[0]) && Count(range[1])) {
    release.min = Count(range[0]);
    release.max = Count(range[1]);
  }
  return release;
}

std::string RangeText(const Release& one) {
  return std::to_string(*one.min) + (one.min == one.max ? "" : " to " + std::to_string(*one.max));
}

Findings CheckVersions(const Facts& facts) {
  if (!facts.daemon.answers() && !facts.master.answers()) return {Say(kNoRelease, {facts.version})};
  std::vector<Release> releases = {
      {.program = "ringwayctl", .version = facts.version, .min = facts.protocol_min, .max = facts.protocol_max}};
  if (facts.daemon.answers()) releases.push_back(ReleaseOf(kDaemonProgram, facts.daemon.self()));
  if (facts.master.answers()) releases.push_back(ReleaseOf(kMasterProgram, facts.master.self()));
  Findings findings;
  for (std::size_t i = 1; i < releases.size(); ++i) {
    const Release& one = releases[i];
    for (std::size_t k = 0; k < i; ++k) {
      const Release& other = releases[k];
      if (one.min && other.min && (*one.min > *other.max || *one.max < *other.min)) {
        findings.push_back(Say(kOtherProtocol, {one.program, one.version, other.program, other.version, RangeText(one),
                                                RangeText(other)}));
      } else if (k == 0 && one.version != other.version) {  // a difference of the others shows against ringwayctl
        findings.push_back(Say(kOtherRelease, {one.program, one.version, other.program, other.version}));
      }
    }
  }
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
  const Row* rows[] = {&kPortOpen, &kPortRefuses, &kPortSilent, &kPortFails, &kNoThread};  // by DialFacts::Outcome
  return Say(*rows[static_cast<std::size_t>(dial.outcome)],
             {Whom(dial), is_master ? kMasterProgram : kDaemonProgram, option, otherwise, dial.why});
}

bool IsUp(const Json& pair) { return Count(At(pair, "lanes_up")).value_or(0) > 0; }

// The addresses of the peers to which the daemon has lanes: the end of a pair that can dial does.
std::set<std::string> LinkedAddresses(const DaemonFacts& daemon) {
  std::set<std::string> addresses;
  for (const Json& group : ObjectsAt(daemon.status, "groups")) {
    std::set<std::string> names;
    for (const Json& pair : ObjectsAt(group, "pairs")) {
      if (IsUp(pair)) names.insert(TextAt(pair, "name"));
    }
    for (const Json& member : ObjectsAt(group, "members")) {
      if (names.contains(TextAt(member, "name"))) addresses.insert(TextAt(member, "address"));
    }
  }
  return addresses;
}

// Only the connections of others prove that they reach this daemon.
void CheckLinks(const DaemonFacts& daemon, Findings& findings) {
  std::size_t up = 0;
  std::size_t left_out = 0;
  Findings missing;
  for (const Json& group : ObjectsAt(daemon.status, "groups")) {
    for (const Json& pair : ObjectsAt(group, "pairs")) {
      const std::string name = TextAt(pair, "name");
      if (IsUp(pair)) {
        ++up;
      } else {
        AddBounded(Say(kNoLane, {name.empty() ? "a newcomer" : name, TextAt(group, "name")}), missing, &left_out);
      }
    }
  }
  findings.insert(findings.end(), missing.begin(), missing.end());
  if (left_out > 0) findings.push_back(Say(kMoreLanes, {std::to_string(left_out)}));
  const std::string address = TextAt(daemon.self(), "address");
  findings.push_back(up > 0            ? Say(kLinksStand, {std::to_string(up)})
                     : address.empty() ? Say(kNotAdvertised)
                                       : Say(kWayBackUnknown, {address}));
}

Findings CheckPorts(const Facts& facts) {
  Findings findings;
  const std::set<std::string> linked = LinkedAddresses(facts.daemon);
  for (const DialFacts& dial : facts.dials) {
    findings.push_back(JudgeDial(dial));
    Finding& finding = findings.back();
    if (finding.level == kFail && linked.contains(dial.address)) {
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
  const std::string place = TextAt(facts.master.self(), "journal_path");
  if (state == "ok") return {Say(kJournal, {place})};
  if (state == "none") return {Say(kNoJournal)};
  return {Say(place.starts_with("etcd://") ? kEtcdFails : kJournalFails, {state, place})};
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

// Whether it nests deeper than so many levels: comparing or copying it would recurse as deep.
bool IsDeeper(const Json& value, int levels) {
  if (!value.is_structured()) return false;
  const auto deeper = [levels](const Json& one) { return IsDeeper(one, levels - 1); };
  return levels == 0 || std::any_of(value.begin(), value.end(), deeper);
}

}  // namespace

void ReadStatus(const std::string& text, const std::string& kind, ProgramFacts* program,
                std::vector<CertificateFacts>* certificates) {
  constexpr int kLevelsMax = 64;
  program->status = Json::parse(text, nullptr, false);
  const Json& self = At(program->status, kind.c_str());
  if (!self.is_object() || IsDeeper(program->status, kLevelsMax)) {
    program->status = Json();
    program->outcome = {Code::kProtocol, "what answers at " + program->place + " is no " + kind};
    return;
  }
  const Json& security = At(self, "security");
  if (!security.is_object()) return;  // an older release does not say
  CertificateFacts& facts = certificates->emplace_back();
  facts.whose = kind == "master" ? kMasterProgram : kDaemonProgram;
  facts.running = true;
  facts.identity = TextAt(security, "identity");
  facts.until = TextAt(security, "until");
  const Json& days = At(security, "days_left");
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
