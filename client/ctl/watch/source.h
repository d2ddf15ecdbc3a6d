// Where a status comes from: the master, or a daemon of this host. Blocks, at most for the timeout.
#pragma once

#include <chrono>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <variant>
#include <vector>

#include "proto/control.pb.h"
#include "proto/result.h"
#include "proto/shell/query.h"

namespace ringway::ctl {

class StatusSource {
 public:
  // `where`: the master, or a daemon's socket.
  StatusSource(std::variant<shell::MasterAddress, std::string> where, std::chrono::milliseconds timeout)
      : where_(std::move(where)), timeout_(timeout) {}

  const std::variant<shell::MasterAddress, std::string>& where() const { return where_; }
  // A daemon has one status, whatever the request says.
  Result<std::string> Ask(const control::StatusRequest& request) const {
    const auto* socket = std::get_if<std::string>(&where_);
    if (socket != nullptr) return shell::QueryDaemon(*socket, timeout_);
    return shell::QueryMaster(std::get<shell::MasterAddress>(where_), timeout_, request);
  }
  // The same, but of masters only the one that leads answers for the groups: CheckLeads.
  Result<std::string> AskLeader(const control::StatusRequest& request) const;

 private:
  std::variant<shell::MasterAddress, std::string> where_;
  std::chrono::milliseconds timeout_;
};

// Ok if the status is of a master that leads, or of a daemon; else kMasterUnreachable, which says who leads.
// `asked`: the masters of --master.
Status CheckLeads(const nlohmann::json& status, const std::vector<Endpoint>& asked);
// Ok if the status has the group; else kInvalidArgument, which names the groups that it has.
Status FindGroup(const nlohmann::json& status, const std::string& group);
// The same of all groups of a source.
Status CheckGroup(const StatusSource& source, const std::string& group);

}  // namespace ringway::ctl
