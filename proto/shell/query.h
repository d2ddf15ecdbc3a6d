// Asks a master or a daemon for its status, a master for a group's plan or an eviction. Blocking, with a deadline.
#pragma once

#include <chrono>
#include <string>

#include "proto/control.pb.h"
#include "proto/endpoint.h"
#include "proto/result.h"

namespace ringway::shell {

// Status and plan are asked for again, until the timeout, where the master closes the connection without an answer.
//
// Returns the status as JSON text. Errors: kMasterUnreachable, kDaemonUnreachable, kTimeout, kProtocol.
Result<std::string> QueryMaster(const Endpoint& master, std::chrono::milliseconds timeout);
// Returns the plan and its reasons as JSON text. Errors: likewise, and the master's for an invalid request.
Result<std::string> QueryPlan(const Endpoint& master, const control::PlanRequest& request,
                              std::chrono::milliseconds timeout);
// Asks the master to evict a member of a group.
Status AskEviction(const Endpoint& master, const control::EvictRequest& request, std::chrono::milliseconds timeout);
Result<std::string> QueryDaemon(const std::string& socket_path, std::chrono::milliseconds timeout);

}  // namespace ringway::shell
