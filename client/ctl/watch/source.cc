#include "client/ctl/watch/source.h"

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <vector>

#include "client/ctl/table.h"
#include "client/ctl/watch/peer_rows.h"
#include "proto/printable.h"

namespace ringway::ctl {

Result<std::string> StatusSource::AskLeader(const control::StatusRequest& request) const {
  Result<std::string> status = Ask(request);
  const auto* master = std::get_if<shell::MasterAddress>(&where_);
  if (!status.ok() || master == nullptr) return status;
  const Status leads = CheckLeads(ParseStatus(status.value()), master->endpoints);
  return leads.ok() ? status : leads;
}

Status CheckLeads(const nlohmann::json& status, const std::vector<Endpoint>& asked) {
  const auto master = status.is_object() ? status.find("master") : status.end();
  if (master == status.end() || Text(*master, "role") != "standby") return Status::Ok();
  const std::string leader = Printable(Text(*master, "leader"));
  // A leader that was asked itself, and is not the one that answers, leads no more: the others have yet to hear it.
  const bool is_past =
      std::any_of(asked.begin(), asked.end(), [&](const Endpoint& e) { return ToString(e) == leader; });
  if (leader == "-" || is_past) {
    return {Code::kMasterUnreachable,
            "no master leads now: operations go on, joins and recoveries wait; ask again, and if that stays, look at "
            "etcd"};
  }
  return {Code::kMasterUnreachable, "this master stands by, and the one at " + leader + " leads: name it in --master"};
}

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
    const Result<std::string> status = source.AskLeader(request);
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
