// The master's state as JSON, for ringwayctl.
#pragma once

#include <string>

#include "master/coordinator.h"

namespace ringway {

std::string StatusJson(const Coordinator& coordinator, Duration uptime);

}  // namespace ringway
