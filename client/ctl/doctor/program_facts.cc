#include "client/ctl/doctor/program_facts.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

namespace ringway::ctl {
namespace {

using nlohmann::json;

// Of any list: more would not be read by anybody.
constexpr std::size_t kEntriesMax = 4096;

json MemberOf(const json& object, const char* key) {
  if (!object.is_object()) return {};
  const auto found = object.find(key);
  return found == object.end() ? json() : *found;
}

std::string TextOf(const json& object, const char* key) {
  const json value = MemberOf(object, key);
  return value.is_string() ? value.get<std::string>() : "";
}

bool IsTrue(const json& object, const char* key) {
  const json value = MemberOf(object, key);
  return value.is_boolean() && value.get<bool>();
}

std::optional<std::uint64_t> CountOf(const json& object, const char* key) {
  const json value = MemberOf(object, key);
  if (!value.is_number_unsigned()) return std::nullopt;
  return value.get<std::uint64_t>();
}

std::vector<json> ObjectsOf(const json& object, const char* key) {
  const json list = MemberOf(object, key);
  std::vector<json> out;
  if (!list.is_array()) return out;
  for (const json& one : list) {
    if (one.is_object() && out.size() < kEntriesMax) out.push_back(one);
  }
  return out;
}

std::optional<ProtocolRange> ProtocolOf(const json& process) {
  const json range = MemberOf(process, "protocol");
  if (!range.is_array() || range.size() != 2) return std::nullopt;
  const auto is_version = [](const json& one) {
    return one.is_number_unsigned() && one.get<std::uint64_t>() <= std::numeric_limits<std::uint32_t>::max();
  };
  if (!is_version(range[0]) || !is_version(range[1])) return std::nullopt;
  return ProtocolRange{.min = range[0].get<std::uint32_t>(), .max = range[1].get<std::uint32_t>()};
}

// Nothing of a release that does not say.
void AddSecurity(const json& process, const std::string& whose, std::vector<CertificateFacts>* certificates) {
  const json security = MemberOf(process, "security");
  if (!security.is_object()) return;
  CertificateFacts facts;
  facts.whose = whose;
  facts.running = true;
  facts.identity = TextOf(security, "identity");
  facts.until = TextOf(security, "until");
  const json days = MemberOf(security, "days_left");
  if (days.is_number_integer()) facts.days_left = days.get<std::int64_t>();
  facts.insecure = IsTrue(security, "insecure");
  certificates->push_back(std::move(facts));
}

std::uint64_t MemoryUsed(const json& memory) {
  std::uint64_t used = 0;
  for (const auto& [key, value] : memory.items()) {
    if (key != "max" && value.is_number_unsigned()) used += value.get<std::uint64_t>();
  }
  return used;
}

json Parsed(const std::string& text) { return json::parse(text, nullptr, false); }

std::int64_t PidOf(const json& process) {
  const std::optional<std::uint64_t> pid = CountOf(process, "pid");
  return pid && *pid <= std::numeric_limits<std::int32_t>::max() ? static_cast<std::int64_t>(*pid) : 0;
}

}  // namespace

void ReadMasterStatus(const std::string& text, MasterFacts* master, std::vector<CertificateFacts>* certificates) {
  const json status = Parsed(text);
  const json process = MemberOf(status, "master");
  if (!process.is_object()) {
    master->outcome = {Code::kProtocol, "what answers at " + master->address + " is no master"};
    return;
  }
  master->version = TextOf(process, "version");
  master->protocol = ProtocolOf(process);
  master->utc = TextOf(process, "utc");
  master->journal = TextOf(process, "journal");
  master->journal_path = TextOf(process, "journal_path");
  AddSecurity(process, kMasterProgram, certificates);
  for (const json& daemon : ObjectsOf(status, "daemons")) {
    master->daemons.push_back({.name = TextOf(daemon, "name"),
                               .address = TextOf(daemon, "address"),
                               .connected = IsTrue(daemon, "connected")});
  }
  for (const json& group : ObjectsOf(status, "groups")) {
    for (const json& peer : ObjectsOf(group, "peers")) {
      const std::string why = TextOf(peer, "why");
      if (TextOf(peer, "state") != "pending" || why.empty() || master->pending.size() == kEntriesMax) continue;
      master->pending.push_back({.group = TextOf(group, "name"), .name = TextOf(peer, "name"), .why = why});
    }
  }
}

void ReadDaemonStatus(const std::string& text, DaemonFacts* daemon, std::vector<CertificateFacts>* certificates) {
  const json status = Parsed(text);
  const json process = MemberOf(status, "daemon");
  if (!process.is_object()) {
    daemon->outcome = {Code::kProtocol, "what answers at " + daemon->socket + " is no daemon"};
    return;
  }
  daemon->name = TextOf(process, "name");
  daemon->address = TextOf(process, "address");
  daemon->master = TextOf(process, "master");
  daemon->version = TextOf(process, "version");
  daemon->protocol = ProtocolOf(process);
  daemon->pid = PidOf(process);
  daemon->master_connected = IsTrue(process, "master_connected");
  const json memory = MemberOf(process, "memory");
  daemon->memory_max = CountOf(memory, "max");
  if (memory.is_object()) daemon->memory_used = MemoryUsed(memory);
  const json descriptors = MemberOf(process, "descriptors");
  daemon->descriptors = CountOf(descriptors, "limit");
  daemon->lanes = CountOf(descriptors, "lanes").value_or(0);
  daemon->lanes_max = CountOf(descriptors, "lanes_max").value_or(std::numeric_limits<std::uint64_t>::max());
  AddSecurity(process, kDaemonProgram, certificates);
  for (const json& group : ObjectsOf(status, "groups")) {
    for (const json& pair : ObjectsOf(group, "pairs")) {
      if (daemon->pairs.size() == kEntriesMax) break;
      const std::string name = TextOf(pair, "name");
      daemon->pairs.push_back({.group = TextOf(group, "name"),
                               .to = name.empty() ? "a newcomer" : name,
                               .lanes_up = CountOf(pair, "lanes_up").value_or(0)});
    }
    for (const json& member : ObjectsOf(group, "members")) {
      if (daemon->members.size() == kEntriesMax) break;
      if (MemberOf(member, "peer_id") == MemberOf(group, "self")) continue;
      daemon->members.push_back(
          {.name = TextOf(member, "name"), .address = TextOf(member, "address"), .connected = true});
    }
  }
}

}  // namespace ringway::ctl
