#include "client/ctl/watch/source.h"

#include <cstddef>
#include <nlohmann/json.hpp>
#include <vector>

#include "client/ctl/table.h"
#include "client/ctl/watch/peer_rows.h"
#include "proto/printable.h"

namespace ringway::ctl {

Status FindGroup(const nlohmann::json& status, const std::string& group) {
  constexpr std::size_t kShown = 20;
  std::string names;
  std::size_t count = 0;
  for (const nlohmann::json& one : Objects(status, "groups")) {
    if (Text(one, "name") == group) return Status::Ok();
    if (++count <= kShown) names += (names.empty() ? "" : ", ") + Printable(Text(one, "name"));
  }
  if (count > kShown) names += " and " + std::to_string(count - kShown) + " more";
  return {Code::kInvalidArgument,
          "there is no group " + group + " here: " + (count == 0 ? "there is none at all" : "there are " + names)};
}

Status CheckGroup(const StatusSource& source, const std::string& group) {
  control::StatusRequest only;
  only.set_group(group);
  for (const control::StatusRequest& request : {only, control::StatusRequest()}) {
    const Result<std::string> status = source.Ask(request);
    if (!status.ok()) return status.status();
    const nlohmann::json parsed = ParseStatus(status.value());
    if (!parsed.is_object()) return {Code::kProtocol, "the status is no JSON object"};
    Status found = FindGroup(parsed, group);
    const bool is_last = request.group().empty();
    if (found.ok() || is_last) return found;
  }
  return Status::Ok();
}

}  // namespace ringway::ctl
