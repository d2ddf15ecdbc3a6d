// Statuses as programs make them, for the tests of `ringwayctl` why, top and status.
#pragma once

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>

namespace ringway::ctl {

using nlohmann::json;

// A member of a group that a master knows.
inline json Member(const std::string& name, int rank) {
  return {{"peer_id", rank + 1},
          {"name", name},
          {"site", "eu"},
          {"daemon", "d-" + name},
          {"address", "10.0.0.1:1"},
          {"rank", rank},
          {"state", "member"},
          {"why", ""},
          {"online", true},
          {"ops_retried", 0},
          {"ops_failed", 0},
          {"lanes_lost", 0},
          {"segments_resent", 0},
          {"live", {{"ops_per_s", 10.0}, {"op_ms", 100.0}, {"sent_mbit", 50.0}, {"wait", nullptr}}}};
}

inline json Wait(const std::string& what, int age_ms, const json& on, const std::string& reason = "") {
  return {{"what", what}, {"age_ms", age_ms}, {"on", on}, {"reason", reason}};
}

// A master's, with one healthy group `job` of members a, b and c.
inline json HealthyStatus() {
  const json group = {
      {"name", "job"},      {"epoch", "1.2"},          {"world_size", 3},
      {"min_world", 1},     {"collecting", false},     {"prepared", nullptr},
      {"hung_ms", 600'000}, {"ring", {"a", "b", "c"}}, {"peers", {Member("a", 0), Member("b", 1), Member("c", 2)}}};
  return {{"master", {{"term", 1}, {"journal", "ok"}, {"uptime_s", 5}}},
          {"daemons", json::array({{{"name", "d-a"}, {"draining", false}, {"memory_used", 1}, {"memory_max", 100}}})},
          {"groups", {group}}};
}

}  // namespace ringway::ctl
