// `ringwayctl why GROUP`: who or what holds a group up now, a sentence each, with what to do. Pure: from the status of
// the master, or of a daemon that has a peer of the group.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "proto/result.h"

namespace ringway::ctl {

struct Cause {
  std::string kind;    // "trainer late", "line slow" and so on: what they are is in client/README.md
  std::string what;    // a sentence
  std::string remedy;  // what to do; empty: nothing
};

// The worst first; empty if nothing holds it up. kInvalidArgument if the status has no such group.
Result<std::vector<Cause>> WhyOf(const nlohmann::json& status, const std::string& group);

// The text, and the JSON {"group", "state", "causes": [{"kind", "what", "remedy"}]}. kProtocol if the status is none.
Result<std::string> RenderWhy(const std::string& status_json, const std::string& group, bool as_json);

}  // namespace ringway::ctl
