// The checks of the host itself: what the kernel's small files say of settings, limits and memory, against what the
// daemon that runs here says, or its config file. What cannot be read or makes no sense is left out.
#pragma once

#include "client/ctl/doctor/facts.h"
#include "client/ctl/doctor/finding.h"

namespace ringway::ctl {

// HostFacts::read of this host.
std::optional<std::string> ReadKernelFile(const std::string& path);
// Whether systemd runs the host with this root directory, and has a unit of Ringway.
bool SystemdHasUnits(const std::string& root);

Findings CheckSysctls(const Facts& facts);
Findings CheckCongestionControl(const Facts& facts);
Findings CheckDescriptors(const Facts& facts);
Findings CheckMemory(const Facts& facts);

}  // namespace ringway::ctl
