// The master's state as JSON, for ringwayctl.
#pragma once

#include <cstddef>
#include <string>

#include "master/coordinator.h"

namespace ringway {

// `journal`: "ok", "none", or why it cannot be written. At most `bytes_max` (no less than 4 KiB): daemons and groups
// beyond that are counted as left_out.
std::string StatusJson(const Coordinator& coordinator, Duration uptime, const std::string& journal,
                       std::size_t bytes_max);

}  // namespace ringway
