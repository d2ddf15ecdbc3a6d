#include "client/ctl/doctor/program_facts.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

namespace ringway::ctl {
namespace {

using nlohmann::json;

constexpr std::size_t kEntriesMax = 4096;  // per list

// Null if it is missing, or `object` is none.
json At(const json& object, const char* key) { return object.is_object() ? object.value(key, json()) : json(); }

std::string Text(const json& object, const char* key) {
  const json value = At(object, key);
  return value.is_string() ? value.get<std::string>() : "";
}

bool IsTrue(const json& object, const char* key) { return At(object, key) == json(true); }

std::optional<std::uint64_t> Count(const json& value) {
  if (!value.is_number_unsigned()) return std::nullopt;
  return value.get<std::uint64_t>();
}
std::optional<std::uint64_t> Count(const json& object, const char* key) { return Count(At(object, key)); }

std::vector<json> Objects(const json& object, const char* key) {
  std::vector<json> out;
  for (const json& one : At(object, key)) {
    if (one.is_object() && out.size() < kEntriesMax) out.push_back(one);
  }
  return out;
}

std::optional<ProtocolRange> Protocol(const json& process) {
  const json range = At(process, "protocol");
  if (!range.is_array() || range.size() != 2) return std::nullopt;
  const auto min = Count(range[0]);
  const auto max = Count(range[1]);
  constexpr auto kMost = std::numeric_limits<std::uint32_t>::max();
  if (!min || !max || *min > kMost || *max > kMost) return std::nullopt;
  return ProtocolRange{.min = static_cast<std::uint32_t>(*min), .max = static_cast<std::uint32_t>(*max)};
}

// An older release does not say.
void AddSecurity(const json& process, const std::string& whose, std::vector<CertificateFacts>* certificates) {
  const json security = At(process, "security");
  if (!security.is_object()) return;
  CertificateFacts facts;
  facts.whose = whose;
  facts.running = true;
  facts.identity = Text(security, "identity");
  facts.until = Text(security, "until");
  const json days = At(security, "days_left");
  if (days.is_number_integer()) facts.days_left = days.get<std::int64_t>();
  facts.insecure = IsTrue(security, "insecure");
  certificates->push_back(std::move(facts));
}

json ParsedQuietly(const std::string& text) { return json::parse(text, nullptr, false); }

}  // namespace

void ReadMasterStatus(const std::string& text, MasterFacts* master, std::vector<CertificateFacts>* certificates) {
  const json status = ParsedQuietly(text);
  const json process = At(status, "master");
  if (!process.is_object()) {
    master->outcome = {Code::kProtocol, "what answers at " + master->address + " is no master"};
    return;
  }
  master->version = Text(process, "version");
  master->protocol = Protocol(process);
  master->utc = Text(process, "utc");
  master->journal = Text(process, "journal");
  master->journal_path = Text(process, "journal_path");
  AddSecurity(process, kMasterProgram, certificates);
  for (const json& one : Objects(status, "daemons")) {
    master->daemons.push_back(
        {.name = Text(one, "name"), .address = Text(one, "address"), .connected = IsTrue(one, "connected")});
  }
  for (const json& group : Objects(status, "groups")) {
    for (const json& peer : Objects(group, "peers")) {
      const std::string why = Text(peer, "why");
      if (Text(peer, "state") != "pending" || why.empty() || master->pending.size() == kEntriesMax) continue;
      master->pending.push_back({.group = Text(group, "name"), .name = Text(peer, "name"), .why = why});
    }
  }
}

void ReadDaemonStatus(const std::string& text, DaemonFacts* daemon, std::vector<CertificateFacts>* certificates) {
  const json status = ParsedQuietly(text);
  const json process = At(status, "daemon");
  if (!process.is_object()) {
    daemon->outcome = {Code::kProtocol, "what answers at " + daemon->socket + " is no daemon"};
    return;
  }
  daemon->name = Text(process, "name");
  daemon->address = Text(process, "address");
  daemon->master = Text(process, "master");
  daemon->version = Text(process, "version");
  daemon->protocol = Protocol(process);
  const std::uint64_t pid = Count(process, "pid").value_or(0);
  if (pid <= std::numeric_limits<std::int32_t>::max()) daemon->pid = static_cast<std::int64_t>(pid);
  daemon->master_connected = IsTrue(process, "master_connected");
  const json memory = At(process, "memory");
  daemon->memory_max = Count(memory, "max");
  if (memory.is_object()) {
    std::uint64_t used = 0;
    for (const auto& [key, value] : memory.items()) used += key == "max" ? 0 : Count(value).value_or(0);
    daemon->memory_used = used;
  }
  const json descriptors = At(process, "descriptors");
  daemon->descriptors = Count(descriptors, "limit");
  daemon->lanes = Count(descriptors, "lanes").value_or(0);
  daemon->lanes_max = Count(descriptors, "lanes_max").value_or(std::numeric_limits<std::uint64_t>::max());
  AddSecurity(process, kDaemonProgram, certificates);
  for (const json& group : Objects(status, "groups")) {
    for (const json& pair : Objects(group, "pairs")) {
      if (daemon->pairs.size() == kEntriesMax) break;
      const std::string name = Text(pair, "name");
      daemon->pairs.push_back({.group = Text(group, "name"),
                               .to = name.empty() ? "a newcomer" : name,
                               .lanes_up = Count(pair, "lanes_up").value_or(0)});
    }
    for (const json& member : Objects(group, "members")) {
      if (daemon->members.size() == kEntriesMax) break;
      if (At(member, "peer_id") == At(group, "self")) continue;
      daemon->members.push_back({.name = Text(member, "name"), .address = Text(member, "address"), .connected = true});
    }
  }
}

}  // namespace ringway::ctl
