// Asks a master or a daemon for its status or a trace, a master for a group's plan, and gives orders to a master.
// Blocking, with a deadline.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "proto/control.pb.h"
#include "proto/endpoint.h"
#include "proto/result.h"
#include "proto/stream/security.h"

namespace ringway::shell {

struct MasterAddress {
  std::vector<Endpoint> endpoints;                    // not empty; of several masters one leads
  std::shared_ptr<net::Security> security = nullptr;  // null: in the clear
};

// The one that leads among several masters is asked: each is tried once, and where one names the leader, that is next,
// if it is in the list. Each has `timeout`. Where none leads, the status is that of one that stands by.
//
// A request for status or plan is repeated until the timeout if the master closes the connection without an answer.
//
// Returns the status as JSON text; an older master gives all groups, whatever `request` says. Errors:
// kMasterUnreachable, kDaemonUnreachable, kTimeout, kProtocol.
Result<std::string> QueryMaster(const MasterAddress& master, std::chrono::milliseconds timeout,
                                const control::StatusRequest& request = {});
// Returns the plan and its reasons as JSON text. Errors: likewise, and the master's for an invalid request.
Result<std::string> QueryPlan(const MasterAddress& master, const control::PlanRequest& request,
                              std::chrono::milliseconds timeout);
// Sends an operator's order, an EvictRequest or a DrainRequest, to the next master only where one refused it or could
// not be reached. Errors say so where it is not known whether the order was carried out.
Status GiveOrder(const MasterAddress& master, const control::ToMaster& order, std::chrono::milliseconds timeout);
Result<std::string> QueryDaemon(const std::string& socket_path, std::chrono::milliseconds timeout);

// What the flight recorder of a daemon holds (proto/flight/layout.h); of `request` a daemon takes group and last.
// Errors: likewise, and the master's for a daemon that it cannot ask.
Result<control::TraceReply> QueryTrace(const MasterAddress& master, const control::TraceRequest& request,
                                       std::chrono::milliseconds timeout);
Result<std::string> QueryTraceOfDaemon(const std::string& socket_path, const control::TraceRequest& request,
                                       std::chrono::milliseconds timeout);

}  // namespace ringway::shell
