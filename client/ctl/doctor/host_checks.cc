#include "client/ctl/doctor/host_checks.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <system_error>

#include "client/ctl/doctor/rows.h"
#include "proto/byte_size.h"
#include "proto/lane_roles.h"
#include "proto/local_abi.h"

namespace ringway::ctl {
namespace {

using namespace rows;
using Bytes = std::optional<std::uint64_t>;

// Half of a daemon's descriptors are for lanes: these are the first ones of a whole group.
constexpr std::uint64_t kDescriptorsWarn = 2 * (abi::kWorldSizeMax - 1) * kLanesRemote;
constexpr std::uint64_t kDescriptorsFail = 256;
// What a daemon needs beside --memory-max (deploy/systemd/ringwayd.service).
constexpr std::uint64_t kBesideBudgetBytes = std::uint64_t{2} << 30;

std::string Mib(std::uint64_t bytes) { return std::to_string(bytes >> 20) + " MiB"; }

std::optional<std::string> Read(const Facts& facts, const std::string& path) {
  return facts.host.read ? facts.host.read(path) : std::nullopt;
}

using Words = std::vector<std::string>;

Words Split(const std::string& text) {
  std::istringstream in(text);
  Words words;
  for (std::string word; in >> word;) words.push_back(std::move(word));
  return words;
}

// With single blanks between, where kernels put tabs.
std::string Joined(const Words& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : " ") + word;
  return out;
}

// The first word behind `key` on the line that begins with it; empty: none.
std::string WordAfter(const std::string& text, const std::string& key) {
  std::istringstream lines(text);
  std::string word;
  for (std::string line; word.empty() && std::getline(lines, line);) {
    if (line.starts_with(key)) std::istringstream(line.substr(key.size())) >> word;
  }
  return word;
}

// A single value is to be the same; of several, sizes from smallest to largest, the largest counts.
bool Satisfies(const Words& is, const Words& wanted) {
  if (is.size() != wanted.size() || wanted.empty()) return false;
  if (wanted.size() == 1) return is == wanted;
  const Bytes largest = ParseBytes(is.back());
  return largest && *largest >= ParseBytes(wanted.back()).value_or(0);
}

// The lowest limit of the running daemon's cgroup and of those above it.
Bytes CgroupMax(const Facts& facts) {
  const std::string process = "/proc/" + std::to_string(Count(At(facts.daemon.self(), "pid")).value_or(0));
  if (Split(Read(facts, process + "/comm").value_or("")) != Words{kDaemonProgram}) return std::nullopt;
  std::string path = "/" + WordAfter(Read(facts, process + "/cgroup").value_or(""), "0::/");
  Bytes lowest;
  for (; path.find("..") == std::string::npos; path.resize(path.rfind('/'))) {
    const Bytes max = ParseBytes(Joined(Split(Read(facts, "/sys/fs/cgroup" + path + "/memory.max").value_or(""))));
    if (max) lowest = std::min(lowest.value_or(*max), *max);
    if (path.empty()) break;
  }
  return lowest;
}

bool Exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

}  // namespace

std::optional<std::string> ReadKernelFile(const std::string& path) {
  std::string text(64 << 10, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad() || !file.is_open()) return std::nullopt;
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

bool SystemdHasUnits(const std::string& root) {
  const char* const directories[] = {"/etc", "/usr/lib", "/lib"};
  return Exists(root + "/run/systemd/system") &&
         std::any_of(std::begin(directories), std::end(directories), [&](const char* directory) {
           return Exists(root + directory + "/systemd/system/ringwayd.service");
         });
}

Findings CheckSysctls(const Facts& facts) {
  Findings findings;
  std::istringstream lines(facts.host.sysctl_conf);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t equals = line.find('=');
    const std::string name = Joined(Split(line.substr(0, equals)));
    if (equals == std::string::npos || name.starts_with('#') || name.starts_with(';')) continue;
    const Words wanted = Split(line.substr(equals + 1));
    std::string path = name;
    std::replace(path.begin(), path.end(), '.', '/');
    const std::optional<std::string> text = Read(facts, "/proc/sys/" + path);
    const Words value = Split(text.value_or(""));
    const Row& row = !text ? kSysctlHidden : Satisfies(value, wanted) ? kSysctl : kSysctlSlow;
    findings.push_back(Say(row, {name, Joined(value), Joined(wanted)}));
  }
  return findings;
}

Findings CheckCongestionControl(const Facts& facts) {
  const auto names = [&](const char* which) {
    return Split(Read(facts, std::string("/proc/sys/net/ipv4/tcp_") + which + "_congestion_control").value_or(""));
  };
  const Words available = names("available");
  const Words allowed = names("allowed");
  if (available.empty()) return {Say(kCongestionHidden)};
  // The daemon does not start with one by option that is refused; by default it takes what there is.
  const bool chosen = !facts.host.congestion.empty();
  const std::string wanted = chosen ? facts.host.congestion : "bbr";
  const Level level = chosen ? kFail : kWarn;
  const auto lacks = [&](const Words& words) { return std::find(words.begin(), words.end(), wanted) == words.end(); };
  const Row row = lacks(available) ? kNotLoaded.At(level) : lacks(allowed) ? kNotAllowed.At(level) : kCongestion;
  return {Say(row, {wanted, Joined(available),
                    chosen ? ", which --congestion names" : ": long paths that lose packets are slow without it",
                    Joined(allowed)})};
}

Findings CheckDescriptors(const Facts& facts) {
  const Json& status = At(facts.daemon.self(), "descriptors");
  const Bytes asked = Count(At(status, "limit"));
  const Bytes limit = asked ? asked : facts.host.descriptors;
  if (!limit) return {Say(kLimitHidden)};
  const std::uint64_t lanes = Count(At(status, "lanes")).value_or(0);
  const bool full = asked && lanes >= Count(At(status, "lanes_max")).value_or(~std::uint64_t{0});
  const Row row = full                        ? kLanesFull
                  : *limit < kDescriptorsFail ? kFilesFew.At(kFail)
                  : *limit < kDescriptorsWarn ? kFilesFew
                                              : kFiles;
  return {Say(row, {asked ? "the daemon may open " : "a daemon started from here could open ", std::to_string(*limit),
                    std::to_string(lanes),
                    facts.host.systemd ? "# LimitNOFILE=65536 in the unit (systemctl edit ringwayd)"
                                       : "# ulimit -n 65536 before ringwayd starts"})};
}

Findings CheckMemory(const Facts& facts) {
  const Json& status = At(facts.daemon.self(), "memory");
  const Bytes asked = Count(At(status, "max"));
  const Bytes budget = asked ? asked : facts.host.memory_max;
  if (!budget) return {Say(kNoBudget)};
  Findings findings;
  const auto check_room = [&](const char* whose, Bytes bytes, std::uint64_t beside, const char* remedy) {
    if (!bytes || (*bytes >= *budget && *bytes - *budget >= beside)) return;
    findings.push_back(
        Say(*bytes < *budget ? kBudgetTooLarge : kBudgetTight, {Mib(*budget), whose, Mib(*bytes), remedy}));
  };
  const std::string meminfo = Read(facts, "/proc/meminfo").value_or("");
  check_room("the host has", ParseBytes(WordAfter(meminfo, "MemTotal:") + "K"), 0,
             "start ringwayd with less --memory-max");
  check_room("its cgroup has", CgroupMax(facts), kBesideBudgetBytes,
             facts.host.systemd ? "less --memory-max, or more MemoryMax= (systemctl edit ringwayd)"
                                : "less --memory-max, or a larger cgroup");
  std::uint64_t used = 0;
  for (const auto& [key, value] : status.items()) used += key == "max" ? 0 : Count(value).value_or(0);
  const Bytes available = ParseBytes(WordAfter(meminfo, "MemAvailable:") + "K");
  if (available && used < *budget && *available < *budget - used) {
    findings.push_back(Say(kMemoryTaken, {Mib(*budget), Mib(used), Mib(*available)}));
  }
  if (findings.empty()) findings.push_back(Say(kBudgetFits, {Mib(*budget)}));
  return findings;
}

}  // namespace ringway::ctl
