// Asks a master or a daemon for its status. Blocking, with a deadline.
#pragma once

#include <chrono>
#include <string>

#include "proto/endpoint.h"
#include "proto/result.h"

namespace ringway::ctl {

// The status as JSON text. kMasterUnreachable, kDaemonUnreachable, kTimeout or kProtocol otherwise.
Result<std::string> QueryMaster(const Endpoint& master, std::chrono::milliseconds timeout);
Result<std::string> QueryDaemon(const std::string& socket_path, std::chrono::milliseconds timeout);

}  // namespace ringway::ctl
