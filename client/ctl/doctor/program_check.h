// Asks a program of the same installation whether it would start with a config file: `PROGRAM --config FILE
// --check-config`, so that what it checks stands in it alone. Blocks, at most for the timeout.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "proto/result.h"

namespace ringway::ctl {

// The directory that ringwayctl itself is in; empty if the system does not say.
std::string OwnDirectory();

// kInvalidArgument with what the program says against the file; kTimeout. Nothing if it cannot be asked: `directory`
// does not have it, or the system no sh(1) and timeout(1).
std::optional<Status> CheckConfigBy(const std::string& directory, const std::string& program, const std::string& file,
                                    std::chrono::milliseconds timeout);

}  // namespace ringway::ctl
