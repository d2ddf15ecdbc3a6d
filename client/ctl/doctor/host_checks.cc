#include "client/ctl/doctor/host_checks.h"

#include <algorithm>
#include <sstream>

#include "proto/byte_size.h"
#include "proto/lane_roles.h"
#include "proto/local_abi.h"

namespace ringway::ctl {
namespace {

constexpr const char* kForGood = "; for good: 60-ringway.conf to /etc/sysctl.d, and sysctl --system";
constexpr const char* kBbr = "bbr";
// Half of a daemon's descriptors are for lanes: these are the first ones of a whole group.
constexpr std::uint64_t kDescriptorsWarn = 2 * (abi::kWorldSizeMax - 1) * kLanesRemote;
constexpr std::uint64_t kDescriptorsFail = 256;
// What a daemon needs beside --memory-max (deploy/systemd/ringwayd.service).
constexpr std::uint64_t kBesideBudgetBytes = std::uint64_t{2} << 30;
constexpr std::uint64_t kDiskWarnBytes = 256 << 20;
constexpr std::uint64_t kDiskFailBytes = 16 << 20;
constexpr std::int64_t kSyncWarnUs = 200'000;

std::vector<std::string> WordsOf(const std::string& text) {
  std::istringstream words(text);
  std::vector<std::string> out;
  for (std::string word; words >> word;) out.push_back(std::move(word));
  return out;
}

bool HasWord(const std::string& text, const std::string& word) {
  const std::vector<std::string> words = WordsOf(text);
  return std::find(words.begin(), words.end(), word) != words.end();
}

std::string Mib(std::uint64_t bytes) { return std::to_string(bytes >> 20) + " MiB"; }

// A single value is to be the same; of several, sizes from smallest to largest, the largest counts.
bool Satisfies(const std::string& value, const std::string& wanted) {
  const std::vector<std::string> is = WordsOf(value);
  const std::vector<std::string> want = WordsOf(wanted);
  if (is.size() != want.size() || want.empty()) return false;
  if (want.size() == 1) return is == want;
  const std::optional<std::uint64_t> largest = ParseBytes(is.back());
  const std::optional<std::uint64_t> least = ParseBytes(want.back());
  return largest && least && *largest >= *least;
}

// What the daemon's budget has to fit into.
struct Room {
  std::string whose;
  std::optional<std::uint64_t> bytes;
  std::uint64_t beside;  // to be left beside the budget
  std::string remedy;
};

Finding JudgeDisk(const JournalFacts& journal) {
  if (journal.hidden) {
    return {.level = Level::kSkip,
            .what = journal.path + ": this user may not look there; run as the master's or root"};
  }
  if (!journal.probe.ok()) {
    return {.level = Level::kFail,
            .what = journal.path + ": " + journal.probe.text(),
            .remedy = "give ringway-master a --journal on a disk that it may write; df -h shows room"};
  }
  const std::string free = journal.free_bytes ? Mib(*journal.free_bytes) + " free, " : "";
  Finding finding = {.what = journal.path + ": " + free + "a write is on the disk after " +
                             std::to_string(journal.sync_us / 1000) + " ms"};
  if (journal.free_bytes.value_or(kDiskWarnBytes) < kDiskWarnBytes) {
    finding.level = *journal.free_bytes < kDiskFailBytes ? Level::kFail : Level::kWarn;
    finding.remedy = "make room on that disk: without it no group can change";
  } else if (journal.in_memory) {
    finding.level = Level::kWarn;
    finding.what += ", but it is in memory: a reboot forgets all groups";
    finding.remedy = "give ringway-master a --journal on a disk";
  } else if (journal.sync_us > kSyncWarnUs) {
    finding.level = Level::kWarn;
    finding.what += ": each change of a group waits for that";
    finding.remedy = "give ringway-master a --journal on a faster disk";
  }
  return finding;
}

}  // namespace

Findings CheckSysctls(const Facts& facts) {
  Findings findings;
  if (facts.host.other_network) {
    return {{.level = Level::kSkip,
             .what = "the daemon runs in another network namespace: nsenter -t " + std::to_string(facts.daemon->pid) +
                     " -n ringwayctl doctor looks there"}};
  }
  for (const SysctlFacts& one : facts.host.sysctls) {
    if (!one.value) {
      findings.push_back({.level = Level::kSkip, .what = one.name + " cannot be read here"});
    } else if (Satisfies(*one.value, one.wanted)) {
      findings.push_back({.what = one.name + " = " + *one.value});
    } else {
      findings.push_back({.level = Level::kWarn,
                          .what = one.name + " = " + *one.value + ": long paths want " + one.wanted,
                          .remedy = "sysctl -w " + one.name + "='" + one.wanted + "'" + kForGood});
    }
  }
  return findings;
}

Findings CheckCongestionControl(const Facts& facts) {
  const CongestionFacts& congestion = facts.host.congestion;
  if (congestion.available.empty()) {
    return {{.level = Level::kSkip, .what = "this kernel does not say which congestion controls it has"}};
  }
  const std::string wanted = congestion.wanted.empty() ? kBbr : congestion.wanted;
  // The daemon does not start with one by option that is refused; by itself it takes what there is.
  const Level level = congestion.wanted.empty() ? Level::kWarn : Level::kFail;
  const std::string effect =
      congestion.wanted.empty() ? ": long paths that lose packets are slow without it" : ", which --congestion names";
  if (!HasWord(congestion.available, wanted)) {
    const std::string module = "tcp_" + wanted;
    return {{.level = level,
             .what = "this kernel has " + congestion.available + ", but not " + wanted + effect,
             .remedy = "modprobe " + module + "; for good: echo " + module + " >/etc/modules-load.d/ringway.conf"}};
  }
  if (!HasWord(congestion.allowed, wanted)) {
    return {
        {.level = level,
         .what = "congestion control " + wanted + " is allowed to root only" + effect,
         .remedy = "sysctl -w net.ipv4.tcp_allowed_congestion_control='" + congestion.allowed + " " + wanted + "'"}};
  }
  return {{.what = wanted + " is there, and allowed"}};
}

Findings CheckDescriptors(const Facts& facts) {
  const bool asked = facts.daemon && facts.daemon->descriptors;
  const std::optional<std::uint64_t> limit = asked ? facts.daemon->descriptors : facts.host.descriptors;
  if (!limit) return {{.level = Level::kSkip, .what = "the limit of open files cannot be read here"}};
  const std::string whose =
      asked || facts.host.of_daemon ? "the daemon may open " : "a daemon started from here could open ";
  Finding finding = {.what = whose + std::to_string(*limit) + " files"};
  if (asked && facts.daemon->lanes >= facts.daemon->lanes_max) {
    finding.level = Level::kWarn;
    finding.what += ": its " + std::to_string(facts.daemon->lanes) + " lanes are all that this allows";
  } else if (*limit < kDescriptorsWarn) {
    finding.level = *limit < kDescriptorsFail ? Level::kFail : Level::kWarn;
    finding.what += ": lanes, regions and sessions of a large group do not fit";
  }
  if (finding.level != Level::kOk)
    finding.remedy = "LimitNOFILE=65536 in the unit (systemctl edit ringwayd), or ulimit -n 65536";
  return {finding};
}

Findings CheckMemory(const Facts& facts) {
  const HostFacts& host = facts.host;
  const std::optional<std::uint64_t> budget =
      facts.daemon && facts.daemon->memory_max ? facts.daemon->memory_max : host.memory_max;
  if (!budget) return {{.level = Level::kSkip, .what = "no daemon runs, and no config file has its memory-max"}};
  const std::string what = "--memory-max is " + Mib(*budget);
  Findings findings;
  const Room rooms[] = {
      {"the host has", host.memory_bytes, 0, "start ringwayd with less --memory-max"},
      {"its cgroup has", host.cgroup_max, kBesideBudgetBytes,
       "less --memory-max, or more MemoryMax= (systemctl edit ringwayd)"},
      {"its address space has", host.address_space, kBesideBudgetBytes,
       "LimitAS=infinity in the unit, or ulimit -v unlimited"},
  };
  for (const Room& room : rooms) {
    if (!room.bytes || (*room.bytes >= *budget && *room.bytes - *budget >= room.beside)) continue;
    const bool fails = *room.bytes < *budget;
    findings.push_back({.level = fails ? Level::kFail : Level::kWarn,
                        .what = what + ", but " + room.whose + " " + Mib(*room.bytes) +
                                (fails ? ": the daemon is killed before it reaches its own limit"
                                       : ": it needs up to 2 GiB beside it"),
                        .remedy = room.remedy});
  }
  const std::uint64_t used = facts.daemon ? facts.daemon->memory_used.value_or(0) : 0;
  if (host.memory_available && used < *budget && *host.memory_available < *budget - used) {
    findings.push_back({.level = Level::kWarn,
                        .what = what + ", of which it has " + Mib(used) + ", but only " + Mib(*host.memory_available) +
                                " are free: others have the rest",
                        .remedy = "free memory on this host, or start ringwayd with less --memory-max"});
  }
  if (findings.empty()) findings.push_back({.what = what + ", and there is room for it"});
  return findings;
}

Findings CheckJournal(const Facts& facts) {
  Findings findings;
  if (facts.master && facts.master->outcome.ok()) {
    const std::string& state = facts.master->journal;
    if (state == "none") {
      findings.push_back({.level = Level::kWarn,
                          .what = "the master has no journal: when it restarts it has forgotten all groups",
                          .remedy = "start ringway-master with --journal FILE"});
    } else if (!state.empty() && state != "ok") {
      findings.push_back({.level = Level::kFail,
                          .what = "the master cannot write its journal, so no group can change: " + state,
                          .remedy = "make room on its disk: df -h, on the master's host"});
    }
  }
  if (!facts.journal) {
    if (findings.empty()) findings.push_back({.level = Level::kSkip, .what = "no master's disk is on this host"});
    return findings;
  }
  const JournalFacts& journal = *facts.journal;
  if (journal.path.empty()) {
    if (findings.empty()) {
      findings.push_back({.level = Level::kSkip, .what = "where the journal is stands nowhere: give --journal FILE"});
    }
    return findings;
  }
  findings.push_back(JudgeDisk(journal));
  return findings;
}

}  // namespace ringway::ctl
