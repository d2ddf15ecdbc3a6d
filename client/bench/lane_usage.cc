#include "client/bench/lane_usage.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "proto/shell/query.h"

namespace ringway::bench {
namespace {

using nlohmann::json;

constexpr std::chrono::seconds kPatience(1);

// 0 if it is missing.
std::uint64_t NumberAt(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number_unsigned() ? found->get<std::uint64_t>() : 0;
}

const json& MemberAt(const json& object, const char* key) {
  static const json kNothing = json::array();
  const auto found = object.is_object() ? object.find(key) : object.end();
  return found != object.end() ? *found : kNothing;
}

}  // namespace

std::optional<LaneUsage> ParseLaneUsage(const std::string& status_json, std::uint64_t peer_id) {
  const json status = json::parse(status_json, nullptr, false);
  for (const json& group : MemberAt(status, "groups")) {
    if (!group.is_object() || NumberAt(group, "self") != peer_id || !group.contains("pairs")) continue;
    LaneUsage usage;
    for (const json& pair : MemberAt(group, "pairs")) {
      if (!pair.is_object()) return std::nullopt;
      usage.lanes = std::max(usage.lanes, NumberAt(pair, "lanes_used"));
      usage.retransmits += NumberAt(pair, "retransmits");
    }
    return usage;
  }
  return std::nullopt;
}

std::optional<LaneUsage> LaneUsageOf(const std::string& socket_path, std::uint64_t peer_id) {
  const Result<std::string> status = shell::QueryDaemon(socket_path, kPatience);
  return status.ok() ? ParseLaneUsage(status.value(), peer_id) : std::nullopt;
}

}  // namespace ringway::bench
