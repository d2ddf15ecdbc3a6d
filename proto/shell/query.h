// Asks a master or a daemon for its status, a master for a group's plan or an eviction. Blocking, with a deadline.
#pragma once

#include <chrono>
#include <string>

#include "proto/control.pb.h"
#include "proto/endpoint.h"
#include "proto/result.h"

namespace ringway::shell {

// The status as JSON text. kMasterUnreachable, kDaemonUnreachable, kTimeout or kProtocol otherwise.
Result<std::string> QueryMaster(const Endpoint& master, std::chrono::milliseconds timeout);
// Why the plan is as it is, as JSON text; besides, what the master says about a request that it cannot answer.
Result<std::string> QueryPlan(const Endpoint& master, const control::PlanRequest& request,
                              std::chrono::milliseconds timeout);
// Has the master drop a member of a group.
Status AskEviction(const Endpoint& master, const control::EvictRequest& request, std::chrono::milliseconds timeout);
Result<std::string> QueryDaemon(const std::string& socket_path, std::chrono::milliseconds timeout);

}  // namespace ringway::shell
