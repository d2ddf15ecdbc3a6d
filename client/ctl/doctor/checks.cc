#include "client/ctl/doctor/checks.h"

#include <algorithm>
#include <initializer_list>
#include <sstream>
#include <utility>

#include "client/ctl/doctor/rows.h"
#include "proto/byte_size.h"
#include "proto/lane_roles.h"
#include "proto/local_abi.h"
#include "proto/shell/tls_keeper.h"
#include "proto/tls/authority.h"

namespace ringway::ctl {
namespace {

using tls::CredentialFault;
using Args = std::initializer_list<std::string>;
using namespace rows;

std::string Filled(std::string text, Args args) {
  std::string out;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '{') {
      out += args.begin()[text[at + 1] - '0'];
      at += 2;
    } else {
      out += text[at];
    }
  }
  return out;
}

Finding Say(const Row& row, Args args = {}) {
  const bool hurts = row.level == kWarn || row.level == kFail;
  return {
      .level = row.level, .what = Filled(row.what, args), .remedy = hurts ? Filled(row.remedy, args) : std::string()};
}

// ---- limits

// Beyond this, lines of two hosts' logs are hard to put in order.
constexpr std::uint64_t kClockWarnSeconds = 10;
constexpr std::uint64_t kClockFailSeconds = std::chrono::seconds(tls::kClocksDiffer).count();
// Half of a daemon's descriptors are for lanes: these are the first ones of a whole group.
constexpr std::uint64_t kDescriptorsWarn = 2 * (abi::kWorldSizeMax - 1) * kLanesRemote;
constexpr std::uint64_t kDescriptorsFail = 256;
// What a daemon needs beside --memory-max (deploy/systemd/ringwayd.service).
constexpr std::uint64_t kBesideBudgetBytes = std::uint64_t{2} << 30;
constexpr std::uint64_t kDiskWarnBytes = 256 << 20;
constexpr std::uint64_t kDiskFailBytes = 16 << 20;
constexpr std::int64_t kSyncWarnUs = 200'000;

// ---- words

std::vector<std::string> Split(const std::string& text) {
  std::istringstream words(text);
  std::vector<std::string> out;
  for (std::string word; words >> word;) out.push_back(std::move(word));
  return out;
}

bool HasWord(const std::string& text, const std::string& word) {
  const std::vector<std::string> words = Split(text);
  return std::find(words.begin(), words.end(), word) != words.end();
}

std::string Mib(std::uint64_t bytes) { return std::to_string(bytes >> 20) + " MiB"; }

bool HasUnit(const Facts& facts, const std::string& program) {
  const auto& units = facts.host.units;
  return std::find(units.begin(), units.end(), program) != units.end();
}

std::string Reload(const Facts& facts, const std::string& program) {
  return HasUnit(facts, program) ? "systemctl reload " + program : "send SIGHUP to reload " + program;
}

std::string SetClock(const Facts& facts) {
  return facts.host.systemd ? "timedatectl set-ntp true" : "run an NTP client";
}

bool Answers(const std::optional<MasterFacts>& master) { return master && master->outcome.ok(); }
bool Answers(const std::optional<DaemonFacts>& daemon) { return daemon && daemon->outcome.ok(); }

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

// Whether the files of a running program hold a certificate that lasts longer than the one that it uses.
bool IsRenewed(const CertificateFacts& running, const std::vector<CertificateFacts>& all) {
  return running.running && std::any_of(all.begin(), all.end(), [&](const CertificateFacts& one) {
           return !one.running && one.whose == running.whose && one.outcome.ok() && one.days_left > running.days_left;
         });
}

std::string Remedy(const Facts& facts, const CertificateFacts& one) {
  if (IsRenewed(one, facts.certificates)) return "# " + Reload(facts, one.whose) + " (its files have a newer one)";
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
  if (!one.denied.empty()) {
    return Say(kKeyDenied, {whose, one.denied, one.files.key, std::to_string(one.denied_group)});
  }
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
  if (!facts.master) return {Say(kMasterUnknown)};
  const MasterFacts& master = *facts.master;
  if (master.locked_out) return {Say(kMasterNotAsked, {master.address})};
  if (!master.outcome.ok()) {
    // It took the connection, and then would not speak.
    const bool differs = master.outcome.code() == Code::kIo || master.outcome.code() == Code::kProtocol;
    return {
        Say((differs ? kMasterDiffers : kMasterSilent).At(master.expected ? kFail : kWarn), {master.outcome.text()})};
  }
  Findings findings = {Say(kMasterAnswers, {master.address})};
  for (const PendingPeer& peer : master.pending)
    findings.push_back(Say(kPeerPending, {peer.name, peer.group, peer.why}));
  return findings;
}

Findings CheckDaemon(const Facts& facts) {
  if (!facts.daemon) return {Say(kDaemonUnknown)};
  const DaemonFacts& daemon = *facts.daemon;
  if (daemon.denied) return {Say(kDaemonDenied, {daemon.socket})};
  if (daemon.outcome.code() == Code::kVersionMismatch) return {Say(kDaemonOld, {daemon.outcome.text()})};
  if (!daemon.outcome.ok()) {
    const bool unit = HasUnit(facts, kDaemonProgram);
    return {
        Say(kDaemonSilent.At(daemon.expected ? kFail : kWarn),
            {daemon.outcome.text(), unit ? "systemctl start ringwayd; journalctl -u ringwayd says why it does not run"
                                         : "start ringwayd; it says on standard error why it does not run"})};
  }
  if (!daemon.master_connected) return {Say(kDaemonAlone, {daemon.name, daemon.master})};
  Findings findings = {Say(kDaemonRuns, {daemon.name, daemon.master})};
  if (!Answers(facts.master)) return findings;
  const auto& entries = facts.master->daemons;
  const bool listed = std::any_of(entries.begin(), entries.end(), [&](const DaemonEntry& entry) {
    return entry.name == daemon.name && entry.connected;
  });
  if (!listed) findings.push_back(Say(kDaemonUnlisted, {facts.master->address, daemon.name, daemon.master}));
  return findings;
}

// A program that answered with its status.
struct Release {
  std::string whose;
  std::string version;
  std::optional<ProtocolRange> protocol;
};

std::string ToString(const ProtocolRange& range) {
  const std::string min = std::to_string(range.min);
  return range.min == range.max ? min : min + " to " + std::to_string(range.max);
}

void CompareReleases(const Release& a, const Release& b, Findings& findings) {
  const bool apart =
      a.protocol && b.protocol && (a.protocol->min > b.protocol->max || b.protocol->min > a.protocol->max);
  if (apart) {
    findings.push_back(
        Say(kOtherProtocol, {a.whose, a.version, b.whose, b.version, ToString(*a.protocol), ToString(*b.protocol)}));
  } else if (a.version != b.version) {
    findings.push_back(Say(kOtherRelease, {a.whose, a.version, b.whose, b.version}));
  }
}

Findings CheckVersions(const Facts& facts) {
  std::vector<Release> releases = {{.whose = "ringwayctl", .version = facts.version, .protocol = facts.protocol}};
  if (Answers(facts.daemon)) releases.push_back({kDaemonProgram, facts.daemon->version, facts.daemon->protocol});
  if (Answers(facts.master)) releases.push_back({kMasterProgram, facts.master->version, facts.master->protocol});
  if (releases.size() == 1) return {Say(kNoRelease, {facts.version})};
  Findings findings;
  for (std::size_t later = 1; later < releases.size(); ++later) {
    for (std::size_t i = 0; i < later; ++i) CompareReleases(releases[later], releases[i], findings);
  }
  if (findings.empty()) findings.push_back(Say(kSameRelease, {facts.version}));
  return findings;
}

Findings CheckClock(const Facts& facts) {
  if (!Answers(facts.master)) return {Say(kNoClock)};
  if (!facts.master->clock_ahead_s) return {Say(kOldClock)};
  const std::int64_t ahead = *facts.master->clock_ahead_s;
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
  if (!Answers(facts.daemon)) return false;
  const auto& members = facts.daemon->members;
  return std::any_of(members.begin(), members.end(), [&](const DaemonEntry& member) {
    const auto& pairs = facts.daemon->pairs;
    return member.address == dial.address && std::any_of(pairs.begin(), pairs.end(), [&](const PairFacts& pair) {
             return pair.to == member.name && pair.lanes_up > 0;
           });
  });
}

// Only the connections of others prove that they reach this daemon.
Finding JudgeWayBack(const DaemonFacts& daemon) {
  const auto& pairs = daemon.pairs;
  const auto up = std::count_if(pairs.begin(), pairs.end(), [](const PairFacts& pair) { return pair.lanes_up > 0; });
  if (up > 0) return Say(kLinksStand, {std::to_string(up)});
  return daemon.address.empty() ? Say(kNotAdvertised) : Say(kWayBackUnknown, {daemon.address});
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
  if (Answers(facts.daemon)) {
    for (const PairFacts& pair : facts.daemon->pairs) {
      if (pair.lanes_up == 0) findings.push_back(Say(kNoLane, {pair.to, pair.group}));
    }
    findings.push_back(JudgeWayBack(*facts.daemon));
  }
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
  // It stands, and nothing of use comes back: the other direction may be the broken one.
  if (facts.master && facts.master->outcome.code() == Code::kTimeout && !facts.master->within_host) {
    findings.push_back(Say(kMasterMute, {facts.master->address}));
  }
  if (findings.empty()) findings.push_back(Say(kNoPath));
  return findings;
}

// ---- this host

// A single value is to be the same; of several, sizes from smallest to largest, the largest counts.
bool Satisfies(const std::string& value, const std::string& wanted) {
  const std::vector<std::string> is = Split(value);
  const std::vector<std::string> want = Split(wanted);
  if (is.size() != want.size() || want.empty()) return false;
  if (want.size() == 1) return is == want;
  const std::optional<std::uint64_t> largest = ParseBytes(is.back());
  const std::optional<std::uint64_t> least = ParseBytes(want.back());
  return largest && least && *largest >= *least;
}

Findings CheckSysctls(const Facts& facts) {
  if (facts.host.other_network) return {Say(kOtherNetwork, {std::to_string(facts.daemon->pid)})};
  Findings findings;
  for (const SysctlFacts& one : facts.host.sysctls) {
    const Row& row = !one.value ? kSysctlHidden : Satisfies(*one.value, one.wanted) ? kSysctl : kSysctlSlow;
    findings.push_back(Say(row, {one.name, one.value.value_or(""), one.wanted}));
  }
  return findings;
}

Findings CheckCongestionControl(const Facts& facts) {
  const CongestionFacts& congestion = facts.host.congestion;
  if (congestion.available.empty()) return {Say(kCongestionHidden)};
  // The daemon does not start with one by option that is refused; by default it takes what there is.
  const bool chosen = !congestion.wanted.empty();
  const std::string wanted = chosen ? congestion.wanted : "bbr";
  const std::string effect =
      chosen ? ", which --congestion names" : ": long paths that lose packets are slow without it";
  const Level level = chosen ? kFail : kWarn;
  const Row row = !HasWord(congestion.available, wanted) ? kNotLoaded.At(level)
                  : !HasWord(congestion.allowed, wanted) ? kNotAllowed.At(level)
                                                         : kCongestion;
  return {Say(row, {wanted, congestion.available, effect, congestion.allowed})};
}

Findings CheckDescriptors(const Facts& facts) {
  const bool asked = facts.daemon && facts.daemon->descriptors;
  const std::optional<std::uint64_t> limit = asked ? facts.daemon->descriptors : facts.host.descriptors;
  if (!limit) return {Say(kLimitHidden)};
  const bool full = asked && facts.daemon->lanes >= facts.daemon->lanes_max;
  const Row row = full                        ? kLanesFull
                  : *limit < kDescriptorsFail ? kFilesFew.At(kFail)
                  : *limit < kDescriptorsWarn ? kFilesFew
                                              : kFiles;
  return {Say(row, {asked || facts.host.of_daemon ? "the daemon may open " : "a daemon started from here could open ",
                    std::to_string(*limit), std::to_string(asked ? facts.daemon->lanes : 0),
                    HasUnit(facts, kDaemonProgram) ? "# LimitNOFILE=65536 in the unit (systemctl edit ringwayd)"
                                                   : "# ulimit -n 65536 before ringwayd starts"})};
}

// What the daemon's budget has to fit into.
struct Room {
  const char* whose;
  std::optional<std::uint64_t> bytes;
  std::uint64_t beside;  // to be left beside the budget
  const char* remedy;
};

Findings CheckMemory(const Facts& facts) {
  const HostFacts& host = facts.host;
  const bool asked = facts.daemon && facts.daemon->memory_max;
  const std::optional<std::uint64_t> budget = asked ? facts.daemon->memory_max : host.memory_max;
  if (!budget) return {Say(kNoBudget)};
  const bool unit = HasUnit(facts, kDaemonProgram);
  const Room rooms[] = {
      {"the host has", host.memory_bytes, 0, "start ringwayd with less --memory-max"},
      {"its cgroup has", host.cgroup_max, kBesideBudgetBytes,
       unit ? "less --memory-max, or more MemoryMax= (systemctl edit ringwayd)"
            : "less --memory-max, or a larger cgroup"},
      {"its address space has", host.address_space, kBesideBudgetBytes,
       unit ? "LimitAS=infinity in the unit" : "ulimit -v unlimited before ringwayd starts"},
  };
  Findings findings;
  for (const Room& room : rooms) {
    if (!room.bytes || (*room.bytes >= *budget && *room.bytes - *budget >= room.beside)) continue;
    const Row& row = *room.bytes < *budget ? kBudgetTooLarge : kBudgetTight;
    findings.push_back(Say(row, {Mib(*budget), room.whose, Mib(*room.bytes), room.remedy}));
  }
  const std::uint64_t used = facts.daemon ? facts.daemon->memory_used.value_or(0) : 0;
  if (host.memory_available && used < *budget && *host.memory_available < *budget - used) {
    findings.push_back(Say(kMemoryTaken, {Mib(*budget), Mib(used), Mib(*host.memory_available)}));
  }
  if (findings.empty()) findings.push_back(Say(kBudgetFits, {Mib(*budget)}));
  return findings;
}

Finding JudgeDisk(const JournalFacts& journal) {
  if (journal.path.empty()) return Say(kJournalUnknown);
  if (journal.hidden) return Say(kJournalHidden, {journal.path});
  if (!journal.probe.ok()) return Say(kDiskFails, {journal.path, journal.probe.text()});
  const std::uint64_t free = journal.free_bytes.value_or(kDiskWarnBytes);
  const Row row = free < kDiskFailBytes           ? kDiskFull.At(kFail)
                  : free < kDiskWarnBytes         ? kDiskFull
                  : journal.in_memory             ? kDiskInMemory
                  : journal.sync_us > kSyncWarnUs ? kDiskSlow
                                                  : kDisk;
  return Say(row, {journal.path, journal.free_bytes ? Mib(*journal.free_bytes) + " free, " : "",
                   std::to_string(journal.sync_us / 1000), journal.left ? " (of a master that does not answer)" : ""});
}

Findings CheckJournal(const Facts& facts) {
  Findings findings;
  if (Answers(facts.master)) {
    const std::string& state = facts.master->journal;
    if (state == "none") findings.push_back(Say(kNoJournal));
    if (!state.empty() && state != "none" && state != "ok") findings.push_back(Say(kJournalFails, {state}));
  }
  if (facts.journal && (findings.empty() || !facts.journal->path.empty()))
    findings.push_back(JudgeDisk(*facts.journal));
  if (findings.empty()) findings.push_back(Say(kNoMasterHere));
  return findings;
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
