// ringwayctl drain: takes a daemon out of service, and waits until it is.
#pragma once

#include <chrono>
#include <string>

#include "proto/result.h"
#include "proto/shell/query.h"

namespace ringway::ctl {

struct DrainOrder {
  std::string daemon;  // its name
  bool end = false;    // back into service
};

// The master tells the daemon: its peers finish what runs and leave, no trainer may join. Returns when the daemon has
// said so and has no peers, with a sentence for the operator. Errors: the master's; kTimeout, which says what is left:
// the daemon goes on.
Result<std::string> Drain(const shell::MasterAddress& master, const DrainOrder& order,
                          std::chrono::milliseconds timeout);

}  // namespace ringway::ctl
